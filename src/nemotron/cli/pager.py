"""Long output on a terminal goes through a pager, as git's does; elsewhere it is printed."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import sys

from nemo_runspec.visible import VisibleStream
from nemotron.cli.masked import Masked
from nemotron.cli.text import colour_wanted

_VARIABLES = ("NEMOTRON_PAGER", "PAGER")
_USUAL = "less"
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_NOT_STARTED = (126, 127)
"""What a shell says of a program that it cannot start, or does not find."""


def show(text: str) -> None:
    """Prints lines; on a terminal that has fewer, through `$NEMOTRON_PAGER`, `$PAGER` or `less -FRX`."""
    show_exactly(f"{text}\n")


def show_exactly(text: str) -> None:
    """The same with no newline of ours, but for one on a terminal where the text does not end with it."""
    if sys.stdout.isatty() and not text.endswith("\n"):
        text += "\n"
    pager = _pager_for(text)
    if pager is None or not _paged(pager, _as_printed(text)):
        print(text, end="")


def width_of_terminal() -> int | None:
    """Its columns, None where standard output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _pager_for(text: str) -> str | None:
    """The command, None for none: there is no terminal, or all of the text fits on it, or nobody wants one."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return None
    size = shutil.get_terminal_size()
    lines = _COLOUR.sub("", text).removesuffix("\n").split("\n")
    if sum(max(1, -(-len(line) // size.columns)) for line in lines) < size.lines:
        return None
    named = next((os.environ[name] for name in _VARIABLES if name in os.environ), shutil.which(_USUAL) or "")
    return named if named.strip() not in ("", "cat") else None


def _paged(pager: str, text: str) -> bool:
    """True if somebody could read it: false where the pager cannot be started.

    Ctrl-C is the pager's meanwhile. One that is closed early has shown what was wanted.
    """
    import subprocess

    environment = {"LESS": "FRX", "LV": "-c", **os.environ}
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        process = subprocess.Popen(("/bin/sh", "-c", pager), stdin=subprocess.PIPE, env=environment)
        process.communicate(text.encode(errors="backslashreplace"))
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return process.returncode not in _NOT_STARTED


def _as_printed(text: str) -> str:
    """The text as `print` would leave it: without secrets, and without what drives the terminal."""
    made = io.StringIO()
    VisibleStream(Masked(made), colour=colour_wanted(sys.stdout)).write(text)
    return made.getvalue()
