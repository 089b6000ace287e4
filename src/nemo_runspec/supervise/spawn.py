"""A new process that starts something which outlives it and its caller.

A fork of the caller would be cheaper, and has its threads' locks, sockets and memory: a notebook's, for days.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines

_BOOT = """\
import pickle, sys
answer = sys.stdout.buffer
sys.stdout = sys.stderr
sys.path[:] = pickle.load(sys.stdin.buffer)
from nemo_runspec.supervise.spawn import serve
serve(answer)
"""
"""Modules are found as the caller finds them. Standard output is for the answer alone."""

Start = Callable[..., str]
"""A function of a module: starts something that goes on by itself, and returns its name."""


def start_in_new_process(start: Start, *arguments: Any, say: Say) -> str:
    """Calls `start(*arguments)` in a new process, with this one's environment and working directory; what it returns.

    Arguments travel through a pipe: secrets among them are in no file, argument or variable.

    Args:
        start: a function of a module.
        say: takes the lines that the process prints until it has answered.

    Raises:
        UserError: as raised by `start`, or the process ended without an answer.
    """
    message = pickle.dumps(list(sys.path)) + pickle.dumps((start, arguments))
    process = subprocess.Popen(
        [sys.executable, "-c", _BOOT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        answer, printed = process.communicate(message)
    except BaseException:  # Ctrl-C: what is not yet recorded is not started
        process.terminate()
        process.wait()
        raise
    lines = text_lines(printed.decode("utf-8", "replace"))
    if not answer:
        raise UserError("the process that was to start it has ended", remedy="\n".join(lines[-5:]) or None)
    for line in lines:
        say(line)
    name, told = pickle.loads(answer)
    if told is not None:
        raise UserError.from_dict(told)
    return str(name)


def serve(answer: Any) -> None:
    """The new process: reads what it is to call, calls it and answers."""
    start, arguments = pickle.load(sys.stdin.buffer)
    told: tuple[str, dict[str, Any] | None]
    try:
        told = (start(*arguments), None)
    except UserError as error:  # not every kind of it can be pickled
        told = ("", error.to_dict())
    with suppress(OSError):  # whoever asked may be gone
        answer.write(pickle.dumps(told))
        answer.flush()
