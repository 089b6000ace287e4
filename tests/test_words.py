"""The words of the code are the field's: names that were given up do not come back, and one name has one meaning."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from support import REPOSITORY

SRC = REPOSITORY / "src"
GLOSSARY = REPOSITORY / "docs" / "glossary.md"
MOST_TERMS = 40

MODULES = {
    "again": "resubmit, retry",
    "aside": "optional",
    "asked": "last_poll, cancel_request",
    "asking": "request",
    "cargo": "upload",
    "choice": "config_choice",
    "claim": "pvc",
    "doubt": "unconfirmed",
    "ended": "exit_status",
    "evidence": "facts",
    "exchange": "subprocess_io",
    "here": "local",
    "holes": "placeholders",
    "keeping": "log_rescue",
    "leaks": "secret_scan",
    "leftovers": "stale_dirs",
    "listen": "master",
    "looks": "formatting",
    "making": "input_jobs",
    "meanings": "rules",
    "mirror": "log_mirror",
    "notice": "unavailable",
    "pinned": "mount_commits",
    "places": "node_identity, placeholders",
    "placing": "artifact_paths",
    "question": "prompt",
    "rest": "collect, log_tail",
    "said": "messages",
    "saved": "s3_copy",
    "say": "console",
    "seen": "status",
    "spool": "temp_file",
    "told": "replicas, log_lines",
    "unfilled": "missing_values",
    "unread": "late_results",
    "waiting": "pending",
    "words": "names",
    "workbench": "git_scratch",
}
"""A module's name that was given up → what such a module is called."""

CLASSES = {
    "Again": "RetriedJob",
    "Asked": "JobRef, Request",
    "Cargo": "Upload",
    "Fate": "AttemptOutcome",
    "Found": "a noun of what was found",
    "Hole": "Placeholder",
    "Meaning": "StateMapping",
    "Piece": "LogChunk",
    "Remains": "JobFiles",
    "Rest": "Results",
    "Said": "Output",
    "Seen": "JobStatus",
    "Told": "Report",
    "Wish": "Request",
}
"""The same for classes."""


def modules() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def classes() -> list[tuple[str, Path]]:
    """Every public class at the top of a module."""
    trees = ((path, ast.parse(path.read_text(encoding="utf-8"))) for path in modules())
    return [
        (node.name, path)
        for path, tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]


def test_no_module_has_a_name_that_was_given_up():
    wrong = {path.relative_to(SRC).as_posix(): MODULES[path.stem] for path in modules() if path.stem in MODULES}
    assert wrong == {}


def test_no_class_has_a_name_that_was_given_up():
    assert {f"{path.relative_to(SRC)}: {name}": CLASSES[name] for name, path in classes() if name in CLASSES} == {}


def test_a_class_name_has_one_meaning():
    counted = Counter(name for name, _ in classes())
    assert {name: count for name, count in counted.items() if count > 1} == {}


def test_the_glossary_is_short_and_in_order():
    terms = re.findall(r"^\| (?!term )([^|]+?) \|", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    assert terms == sorted(set(terms))
    assert 20 < len(terms) <= MOST_TERMS
    assert not {term.lower() for term in terms} & (MODULES.keys() | {name.lower() for name in CLASSES})
