"""A process that outlives the terminal, the shell and whoever started it."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from nemo_runspec.errors import UserError

Ready = Callable[[str, Path], None]
"""Called by the detached process when whoever started it may go: with a name for that one, and the file that the
process's own output and errors go to from then on."""


def detach(work: Callable[[Ready], None]) -> str:
    """Runs `work(ready)` in a process of its own session, without a terminal, and waits until that calls `ready`.

    The process is a fork: it has all that this one has in memory, secrets too, so that nothing need be written down,
    and it starts at once. It is adopted by the system's first process when this one ends.

    Returns: the name that `ready` was called with.

    Raises:
        UserError: what `work` raised before it was ready, or that it ended before.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_detached(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return _name_in(said)


def _be_detached(work: Callable[[Ready], None], writing: int) -> None:
    """The other process, from its first to its last moment."""
    code = 1
    try:
        if os.fork() != 0:  # no zombie in a long-lived parent
            os._exit(0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _run(work, writing)
        code = 0
    finally:
        os._exit(code)


def _run(work: Callable[[Ready], None], writing: int) -> None:
    told = False

    def ready(name: str, log: Path) -> None:
        nonlocal told
        os.setsid()  # not before: until somebody can name and end it, Ctrl-C ends this process too
        _rename(name)
        _redirect(log)
        _tell(writing, {"ready": name})
        told = True

    try:
        work(ready)
    except UserError as error:
        if told:
            print(f"error: {error}", file=sys.stderr)
        else:
            _tell(writing, {"error": error.to_dict()})
    except BaseException:
        if not told:
            _tell(writing, {"error": UserError(f"the supervisor failed: {traceback.format_exc()}").to_dict()})
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _rename(name: str) -> None:
    """The process list shows what this process is for, and no longer the command line it comes from."""
    from setproctitle import setproctitle

    setproctitle(f"nemotron: supervises {name}")


def _redirect(log: Path) -> None:
    """Input from nowhere, output and errors to a private file."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(nothing, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(nothing)
    os.close(file)


def _tell(writing: int, message: dict[str, object]) -> None:
    with suppress(OSError):  # whoever asked may be gone
        os.write(writing, json.dumps(message).encode())
        os.close(writing)


def _name_in(said: bytes) -> str:
    if not said:
        raise UserError("the supervisor ended before anything was recorded", remedy="run it attached: --run")
    message = json.loads(said)
    if "error" in message:
        raise UserError.from_dict(message["error"])
    return str(message["ready"])
