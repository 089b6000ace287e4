"""Inputs and outputs whose type can be checked are looked at: before the command, and once it has ended well.

The checkers run in a process of their own (`checks.py`): what they need of time and memory, or do wrong, is not the
job's.
"""

import glob
import os
import sys
import time

from nemo_runspec.jobside import artifacts, processes, values
from nemo_runspec.jobside.barriers import Failure
from nemo_runspec.jobside.exit_status import Ended
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from typing import Any, Dict, List, Tuple

    from nemo_runspec.jobside.node import NodeRun

    Check = Dict[str, Any]

EXIT_CODE = 65
"""EX_DATAERR of sysexits.h."""
_CODE = "artifact"
"""Of `REASONS` in script/markers.py."""
_SECONDS = 6
"""How long the checkers look where not everything is read."""
_PATIENCE = 60.0
"""Seconds until it is not waited for any longer: a file system may stand still."""
_OTHERS = 600.0
_SHOWN = 5
_BUNDLE = "bundle:"
_FILES = (("asked-%s", os.O_RDONLY), ("found-%s", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))


def check_inputs(node: "NodeRun") -> None:
    """Raises `Failure` where an input is not as its type wants it."""
    wrong = _wrong(node, "input")
    if wrong:
        raise Failure(wrong, EXIT_CODE, _CODE)


def check_outputs(node: "NodeRun", ended: Ended) -> Ended:
    """How the node has ended, now that its outputs were looked at: by the first task, once all others are done.

    Raises:
        Failure: another one has failed meanwhile, or the job was told to stop.
    """
    if node.job.task or ended.exit_code or node.received or not _checks(node, "output"):
        return ended
    _await_others(node)
    wrong = _wrong(node, "output")
    return Ended(EXIT_CODE, reason=wrong, code=_CODE, ran=True) if wrong else ended


def _checks(node: "NodeRun", side: str) -> "List[Check]":
    return [each for each in node.job.checks if each["side"] == side]


def _await_others(node: "NodeRun") -> None:
    """Waits until the other nodes have ended, as they may still write outputs."""
    until = time.monotonic() + _OTHERS
    others = ["node-%d" % number for number in range(node.job.nodes) if number != node.job.node]
    while others and time.monotonic() < until:
        others = [name for name in others if not node.status.has(name)]
        node.barriers.heed_failures()
        if others:
            node.pause(0.5)


def _wrong(node: "NodeRun", side: str) -> str:
    """What is wrong with the inputs or outputs, '' for nothing."""
    asked = [(each, _place(node, each)) for each in _checks(node, side)]
    # What is no whole path is an address, or a name by which a library finds it.
    asked = [(each, path) for each, path in asked if path.startswith("/")]
    asked = [(each, path) for each, path in asked if each["required"] or os.path.exists(path)]
    if not asked:
        return ""
    found = _answers(node, side, asked)
    wrong = []
    for (each, _), answer in zip(asked, found):  # noqa: B905
        name = "%s '%s' (%s)" % (side, each["name"], each["type"])
        for note in [answer["unchecked"]] if answer["unchecked"] else answer["notes"]:
            if "this Python" in note or answer["unchecked"]:
                say("%s: not looked at: %s" % (name, note))
        wrong += ["%s: %s" % (name, _said(finding)) for finding in answer["findings"]]
    for line in wrong[1:_SHOWN]:
        say(line)
    return wrong[0] + (" (and %d more)" % (len(wrong) - 1) if len(wrong) > 1 else "") if wrong else ""


def _said(finding: "Dict[str, str]") -> str:
    place = ", ".join(filter(None, (finding["file"], finding["place"])))
    return "%s: %s" % (place, finding["what"]) if place else finding["what"]


def _place(node: "NodeRun", check: "Check") -> str:
    """Where it lies: the version that was found of an input, or a file of the job bundle."""
    path = str(check["path"])
    if path.startswith(_BUNDLE):
        return _bundled(node.job.root + "/bundle", str(check.get("folder", "")), path[len(_BUNDLE) :])
    version = artifacts.input_path(node.status, check["name"]) if path in node.job.inputs.values() else ""
    return version or path


def _bundled(bundle: str, folder: str, path: str) -> str:
    """Below the recipe's own folder, else below a package of its family's shared code."""
    own = "/".join(filter(None, (bundle, folder, path)))
    if os.path.exists(own):
        return own
    family = "/".join(folder.split("/")[:2])
    found = sorted(glob.glob("%s/_*/*/%s" % (glob.escape("%s/%s" % (bundle, family)), glob.escape(path))))
    return found[0] if found else own


def _answers(node: "NodeRun", side: str, asked: "List[Tuple[Check, str]]") -> "List[Dict[str, Any]]":
    """What the checkers say, of each; that nothing can be said where they cannot be run."""
    look = [{"path": path, "check": each["check"]} for each, path in asked]
    why = "the checkers cannot be run"
    try:
        node.status.write_text("asked-" + side, values.write({"look": look, "seconds": _SECONDS}))
        for python in _pythons():
            why = _run(node, side, python)
            answer = values.read(node.status.text("found-" + side)) if not why else {}
            found = list(answer.get("found", ()))
            if len(found) == len(asked):
                return found
    except (OSError, ValueError) as error:
        why = "the checkers cannot be run: %s" % error
    return [{"findings": [], "notes": [], "unchecked": why} for _ in asked]


def _pythons() -> "List[List[str]]":
    """The Pythons that may run it: the job's own first, which may have what reads Parquet; at last any."""
    own = ["python3", "python", sys.executable]
    return [*([python, "--equipped"] for python in own), [sys.executable]]


def _run(node: "NodeRun", side: str, words: "List[str]") -> str:
    """Why it could not be run, '' where it was."""
    program = node.job.root + "/checks.py"
    asked, found = (os.open(node.status.file(name % side), flags, 0o600) for name, flags in _FILES)
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        child = processes.start([words[0], program, *words[1:]], dict(os.environ), {0: asked, 1: found, 2: nothing})
    except OSError as error:
        return "%s: %s" % (words[0], error.strerror)
    finally:
        for number in (asked, found, nothing):
            os.close(number)
    try:
        until = time.monotonic() + _PATIENCE
        while not child.has_ended() and time.monotonic() < until:
            node.pause(0.5, once=True)
        if child.has_ended():
            return "" if child.exit_code == 0 else "exit code %d of the checkers" % child.exit_code
        return "the checkers did not answer within %d s" % _PATIENCE
    finally:
        if not child.has_ended():
            processes.end_tree(child.pid)
