"""Adds what a job printed after its supervisor had died to its log, from the engine's copy.

Nothing is lost, and nothing stands there twice. The engine keeps a container's output from its first byte, and the log
begins with the same lines, filtered. So they are read side by side, and what the engine has beyond the log is added.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from nemo_runspec import paths
from nemo_runspec.backends.docker.engine import is_gone, refusals, words_of
from nemo_runspec.errors import UserError
from nemo_runspec.locks import take
from nemo_runspec.records.drawn import DrawnLines
from nemo_runspec.records.follow import log_of
from nemo_runspec.redact import LineFilter

OURS = "[nemotron] "
"""How lines of ours in a job's log begin."""

_UNSURE = (
    f"{OURS}nobody listened to the job for a while about here; the engine has not kept all of the output before, so "
    "lines may be missing or stand here twice"
)
_UNREADABLE = "does not support reading"
"""What the engine says of log drivers such as `none` and `syslog` (Docker 20.10 to 28)."""

_TAIL = 200
"""Lines at the log's end that are looked for where the log is not simply the beginning of what the engine has."""

_OTHER = re.compile(rb"[\x80-\xff]+")

OutputSource = Callable[[], Iterable[bytes]]
"""The engine's copy of the output, once more from its beginning, in pieces of any size."""


class _NotKept(Exception):
    """The container's log driver sends its output elsewhere."""


def complete_log(client: Any, container: str, folder: Path, *, wait: bool = False) -> None:
    """Adds to the job's log what the engine has of its output beyond it. The container must have ended.

    Where secrets of the plan cannot be found any more, nothing is added but a line that says so, and it is an error:
    the container, which has that output, is to be kept until somebody has looked.

    Args:
        wait: for another process that is at it.

    Raises:
        Busy: another process is at it, and `wait` is False.
        UserError: the engine refuses; or there is output that must not be written without the plan's secrets.
        OSError: the log cannot be read or written.
    """
    with _alone(log_of(folder), wait) as log:
        try:
            _complete(log, container, lambda: _pieces(client, container), folder)
        except _NotKept:
            _say_once(log, f"{OURS}what follows is not here: the container's log driver keeps nothing to be read")


def try_complete_log(client: Any, container: str, folder: Path) -> str:
    """As `complete_log`, waiting for others; what kept it from that, '' where nothing did."""
    try:
        complete_log(client, container, folder, wait=True)
    except (UserError, OSError) as error:
        return f"its log lacks its end: {error}"
    return ""


def add_rest(log: BinaryIO, output: OutputSource, secrets: Sequence[str]) -> None:
    """Adds the lines that `output` has beyond the log, which is open for reading and appending.

    The engine stores text: bytes of a line that are no UTF-8 come back as replacement characters (json-file driver).
    """
    lines = lines_of(output(), secrets)
    log.seek(0)
    begun = _skip(lines, log)
    if begun is not None:
        _write(log, chain([begun], lines))
        return
    number = _after_tail(lines_of(output(), secrets), _tail(log))
    rest = islice(lines_of(output(), secrets), number, None)
    first = next(rest, None)
    if first is not None:
        _say_once(log, _UNSURE)
        _write(log, chain([first], rest))


def lines_of(pieces: Iterable[bytes], secrets: Sequence[str] = ()) -> Iterator[bytes]:
    """The output in lines, with their ends, without secrets; the last one may have no end."""
    clean = LineFilter(secrets)
    drawn, held = DrawnLines(), b""
    for piece in pieces:
        *whole, held = (held + drawn.take(clean.feed(piece))).split(b"\n")
        yield from (line + b"\n" for line in whole)
    held += clean.close()
    yield from drawn.unfinished().splitlines(keepends=True)
    if held:
        yield held


def _pieces(client: Any, container: str) -> Iterator[bytes]:
    from docker.errors import APIError

    with refusals("read the container's output"):
        try:
            yield from client.logs(container, stream=True)
        except APIError as error:
            if _UNREADABLE in words_of(error):
                raise _NotKept from None
            if not is_gone(error):  # another process has read it and removed the container
                raise


def _complete(log: BinaryIO, container: str, output: OutputSource, folder: Path) -> None:
    try:
        secrets = _secrets(folder)
    except UserError as error:
        if _count(lines_of(output())) == _count(log):
            return
        _say_once(log, f"{OURS}what follows is left out, as its secrets cannot be kept out of it: {error.what}")
        shown = f"docker logs {container[:12]}"
        raise UserError(
            f"the rest of its output is with the engine ({shown}): {error.what}",
            remedy=f"{shown} shows it; nemotron jobs rm removes it",
        ) from None
    add_rest(log, output, secrets)


def _secrets(folder: Path) -> list[str]:
    from nemo_runspec.planning.codec import load_plan
    from nemo_runspec.planning.secrets_again import look_up

    return list(look_up(load_plan(folder / "plan.json")).values())


def _skip(lines: Iterator[bytes], log: Iterable[bytes]) -> bytes | None:
    """Takes the lines that the log has off the engine's.

    Returns: what is missing of a last line that the log has only in part, most often nothing; None where they differ.
    """
    for have in log:
        line = next(lines, None)
        if line is None:
            return b""
        if not have.endswith(b"\n"):  # its writer was killed in the middle of it
            return line[len(have) :] if line.startswith(have) else None
        if not _is_same(have, line):
            return None
    return b""


def _is_same(one: bytes, other: bytes) -> bool:
    return one == other or _plain(one) == _plain(other)


def _plain(line: bytes) -> bytes:
    """A line as it is compared. The engine's copy of one that is no UTF-8, or long, differs in bytes above 127."""
    return _OTHER.sub(b"?", line.rstrip(b"\n"))


def _tail(log: BinaryIO) -> list[bytes]:
    """The last whole lines of the job's own, as they are compared."""
    log.seek(0)
    own = (line for line in log if line.endswith(b"\n") and not line.startswith(OURS.encode()))
    return [_plain(line) for line in deque(own, _TAIL)]


def _after_tail(lines: Iterable[bytes], tail: Sequence[bytes]) -> int:
    """How many of the lines come before what the log lacks: those up to its tail, or to the part of it that is left."""
    window: deque[bytes] = deque(maxlen=len(tail))
    head: list[bytes] = []
    wanted = deque(tail)
    for number, line in enumerate(lines, 1):
        window.append(_plain(line))
        if len(head) < len(tail):
            head.append(window[-1])
        if tail and window == wanted:
            return number
    return next((k for k in range(min(len(head), len(tail)), 0, -1) if list(tail[-k:]) == head[:k]), 0)


def _say_once(log: BinaryIO, line: str) -> None:
    """Adds a line of ours, unless it is the last one; a line that was cut is ended first."""
    log.seek(0)
    last = next(iter(deque(log, 1)), b"\n")
    if last != f"{line}\n".encode():
        _write(log, [b"" if last.endswith(b"\n") else b"\n", f"{line}\n".encode()])


def _write(log: BinaryIO, lines: Iterable[bytes]) -> None:
    for line in lines:
        log.write(line)
    log.flush()


def _count(lines: Iterable[bytes]) -> int:
    return sum(1 for _ in lines)


@contextmanager
def _alone(file: Path, wait: bool) -> Iterator[BinaryIO]:
    """The log, open for reading and appending, for one process at a time."""
    paths.private_dir(file.parent)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "a+b") as log:
        take(descriptor, wait=wait)
        yield log
