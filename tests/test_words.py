"""The words of the code are the field's: names that were given up do not come back, and one name has one meaning.

All of it is read as text, once: parsing 700 files takes seconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
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
    "examine": "checks",
    "exchange": "subprocess_io",
    "fate": "attempt_end",
    "gates": "barriers",
    "here": "local",
    "holes": "placeholders",
    "keeping": "log_rescue",
    "known": "known_errors",
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
    "stopping": "stop_requests, cancel",
    "told": "replicas, log_lines",
    "unfilled": "missing_values",
    "unread": "late_results",
    "waiting": "pending",
    "words": "names",
    "workbench": "git_scratch",
}
"""A module's name that was given up → what such a module is called. Files of tests have it with `test_` before it."""

OF_TESTS = ("test_places.py", "test_stopping.py", "test_words.py")
"""What tests of more than one module are called."""

CLASSES = {
    "Again": "RetriedJob",
    "Asked": "JobRef, Request, or a noun of what is asked",
    "Cargo": "Upload",
    "Crew": "RunContext",
    "Fate": "AttemptOutcome",
    "Found": "a noun of what was found",
    "Gates": "Barriers",
    "Hole": "Placeholder",
    "Meaning": "StateMapping",
    "Offer": "Transports",
    "Patient": "CheckedProfile",
    "Piece": "LogChunk",
    "Question": "CheckRequest, or a noun of what is asked",
    "Remains": "JobFiles",
    "Rest": "Results",
    "Row": "a noun of what is in the row",
    "Said": "Output",
    "Seen": "JobStatus",
    "Told": "Report, Announcer",
    "Way": "Transport",
    "Wish": "Request",
    "Workbench": "GitScratch",
}
"""The same for classes and for aliases of types, private ones too."""

FUNCTIONS = {
    "again_of": "attempt_and_reason",
    "decisive": "deciding_marker",
    "examine": "run_checks",
    "greet": "handshake",
    "host_of": "host_in, or the provider's endpoint",
    "keep_logs_for": "rescue_logs_for",
    "led": "session",
    "linger": "wait_for_others",
    "may_come": "may_appear",
    "offer_of": "transports_of",
    "shape_of": "array_key",
    "take_away": "remove, delete",
    "torn": "split_by_shell",
    "untold_metric": "missing_metric_of",
    "workbench": "git_scratch",
}
"""The same for functions and methods, private ones too."""

OWN_PROGRAMS = ("src/nemo_runspec/script/programs.py",)
"""Hold the text of a program, whose classes are nobody else's."""

FIRST_WORDS = ("As", "How", "It", "Of", "Once", "Those", "Until", "What", "Where", "Whether")
"""What no docstring begins with: a noun says what a thing is, a verb what a function does."""

MOST_UNCLEAR = {"module": 8, "class or function": 958}
"""So many begin so all the same. This only falls: whoever rewrites some lowers it."""

SHARED_LINES = 1
"""Lines of `Args:` with a second argument in them, of 679 blocks. The same."""

_CLASS = re.compile(r"^(?:class (\w+)|(_?[A-Z]\w*[a-z]\w*)(?:: TypeAlias)? = )", re.MULTILINE)
_FUNCTION = re.compile(r"^ *(?:async )?def (\w+)", re.MULTILINE)
_DOCSTRING = re.compile(r'(?:(?P<module>\A)|(?<=:\n)) *r?"""(?P<word>\w+)')
_SECOND_ARGUMENT = re.compile(r"[.;] `\w+`(?:, `\w+`)*: ")


@cache
def texts() -> dict[str, str]:
    """Every module of src, by its path in the repository."""
    return {path.relative_to(REPOSITORY).as_posix(): path.read_text(encoding="utf-8") for path in SRC.rglob("*.py")}


def names(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """What a pattern finds in a file, and the file."""
    for path, text in texts().items():
        for match in pattern.finditer(text):
            yield next(filter(None, match.groups())), path


def given_up(pattern: re.Pattern[str], table: dict[str, str]) -> dict[str, str]:
    """Where a name of the table stands, and what it is called instead."""
    found = {f"{path}: {name.lstrip('_')}": table.get(name.lstrip("_"), "") for name, path in names(pattern)}
    return {place: instead for place, instead in found.items() if instead}


def unclear() -> Counter[str]:
    """How many docstrings begin with one of `FIRST_WORDS`: of modules, and of what is in them."""
    found = (match for text in texts().values() for match in _DOCSTRING.finditer(text) if match["word"] in FIRST_WORDS)
    return Counter("module" if match["module"] is not None else "class or function" for match in found)


def argument_lines() -> Iterator[str]:
    """The lines of all `Args:` blocks on which an argument begins."""
    for text in texts().values():
        for block in re.finditer(r"^( *)Args:\n((?:\1    .*\n|\n)+)", text, re.MULTILINE):
            yield from (line for line in block[2].split("\n") if re.match(rf"{block[1]}    \S", line))


def test_no_module_has_a_name_that_was_given_up():
    assert {path: MODULES[Path(path).stem] for path in texts() if Path(path).stem in MODULES} == {}


def test_no_file_of_tests_has_such_a_name():
    tested = {path: path.stem.removeprefix("test_") for path in (REPOSITORY / "tests").rglob("test_*.py")}
    assert {path.name: MODULES[of] for path, of in tested.items() if of in MODULES and path.name not in OF_TESTS} == {}


def test_no_class_or_alias_has_a_name_that_was_given_up():
    assert given_up(_CLASS, CLASSES) == {}


def test_no_function_has_a_name_that_was_given_up():
    assert given_up(_FUNCTION, FUNCTIONS) == {}


def test_a_class_or_alias_has_one_meaning():
    """Of public names. One that two modules declare is imported by the one from the other instead."""
    counted = Counter(name for name, path in names(_CLASS) if not name.startswith("_") and path not in OWN_PROGRAMS)
    assert {name: count for name, count in counted.items() if count > 1} == {}


@pytest.mark.parametrize("kind", list(MOST_UNCLEAR))
def test_docstrings_begin_with_a_noun_or_a_verb(kind: str):
    assert unclear()[kind] <= MOST_UNCLEAR[kind], f"more {kind} docstrings begin with one of {', '.join(FIRST_WORDS)}"
    assert unclear()[kind] > MOST_UNCLEAR[kind] - 40, f"well done: lower MOST_UNCLEAR[{kind!r}] to {unclear()[kind]}"


def test_an_argument_has_a_line_of_its_own():
    shared = [line.strip() for line in argument_lines() if _SECOND_ARGUMENT.search(line)]
    assert len(shared) <= SHARED_LINES, shared


def test_what_is_wrong_is_found():
    text = (
        '"""What it is."""\nFound = tuple[str, int]\n\n\nclass _Told:\n    """Those told."""\n\n    def _led(self):\n'
    )
    assert [match["word"] for match in _DOCSTRING.finditer(text)] == ["What", "Those"]
    assert [next(filter(None, match.groups())) for match in _CLASS.finditer(text)] == ["Found", "_Told"]
    assert _FUNCTION.findall(text) == ["_led"]
    assert _SECOND_ARGUMENT.search("name: a job's. `size`: in bytes.")


def test_the_glossary_is_short_and_in_order():
    terms = re.findall(r"^\| (?!term )([^|]+?) \|", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    assert terms == sorted(set(terms))
    assert 20 < len(terms) <= MOST_TERMS
    assert not {term.lower() for term in terms} & (MODULES.keys() | {name.lower() for name in CLASSES})
