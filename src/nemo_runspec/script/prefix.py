"""Puts its first argument before every line of standard input: what the loop in prefix.sh does, but fast.

The further arguments are names of variables: their values are secrets, and are hidden.

Run by whatever python3 a job finds, down to 3.6, one for every rank: it imports next to nothing, and has forms.py
before it instead of importing that.
"""

import fcntl
import os
import stat
import sys

from nemo_runspec.forms import hidden_forms, hide

_READ = 1 << 20
_ATOMIC = 4096
"""PIPE_BUF of Linux: a write of at most so many bytes does not mix with those of other processes (man 7 pipe)."""
_SET_PIPE_SIZE = 1031
"""F_SETPIPE_SZ, which the fcntl module knows from Python 3.10 on."""


class _Given:
    """How much was given on: lines and bytes, written or not. Whoever keeps the log may have had no room for them."""

    lines = 0
    size = 0


def main() -> None:
    """Copies, and notes in the file of NEMOTRON_GIVEN how much that was: it was made when there was room for it."""
    try:
        _copy()
    finally:
        _note_given()


def _note_given() -> None:
    try:
        with open(os.environ["NEMOTRON_GIVEN"], "r+b") as file:  # noqa: PTH123  (pathlib takes 10 ms)
            file.write(b"%d %d " % (_Given.lines, _Given.size))
    except (KeyError, OSError):
        return


def _copy() -> None:
    """Copies until the end of input; a carriage return ends a line too, so that progress bars are seen."""
    tag, lock, held, after_return = os.fsencode(sys.argv[1]), _lock(), bytearray(), False
    secrets = hidden_forms(_values(sys.argv[2:]))
    _enlarge_input()
    while True:
        chunk = os.read(0, _READ)
        if not chunk:
            break
        if after_return and chunk[:1] == b"\n":  # one end of line that came in two pieces
            chunk = chunk[1:]
        end, last = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1, bytes(held[-1:]) + chunk[-2:]
        if end:
            _give(tag, hide(_lines(bytes(held) + chunk[:end]), secrets), lock)
            held = bytearray()
        held += chunk[end:]
        after_return = last[-1:] == b"\r" and last[-2:-1] not in (b"", b"\r", b"\n")
    if held:
        _give(tag, hide(bytes(held), secrets) + b"\n", lock)


def _values(names: "list[str]") -> "list[bytes]":
    return [os.environb.get(os.fsencode(name), b"") for name in names]


def _lines(block: bytes) -> bytes:
    """Whole lines with `\\n` as their only end. An empty line that `\\r` ends is none: bars begin with one."""
    if b"\r" not in block:
        return block
    *rows, rest = (row.split(b"\r") for row in block.replace(b"\r\n", b"\n").split(b"\n"))
    kept = [part for row in rows for part in (*filter(None, row[:-1]), row[-1])]
    return b"".join(part + b"\n" for part in (*kept, *filter(None, rest)))


def _give(tag: bytes, lines: bytes, lock: int) -> None:
    if not lines:
        return
    text = tag + lines[:-1].replace(b"\n", b"\n" + tag) + b"\n"
    _Given.lines += text.count(b"\n")
    _Given.size += len(text)
    if lock < 0:
        _give_in_pieces(text)
        return
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        _write(text)
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)


def _give_in_pieces(text: bytes) -> None:
    """Whole lines in writes that do not mix; only a line longer than these may."""
    start = 0
    while start < len(text):
        end = text.rfind(b"\n", start, start + _ATOMIC) + 1 or text.index(b"\n", start) + 1
        _write(text[start:end])
        start = end


def _write(text: bytes) -> None:
    left = memoryview(text)
    while left:
        try:
            left = left[os.write(1, left) :]
        except BlockingIOError:
            os.set_blocking(1, True)
        except BrokenPipeError:
            sys.exit(1)  # as any writer ends whose reader has gone
        except OSError:
            return  # a full disk costs these lines, not the job


def _lock() -> int:
    """What all ranks that write to this pipe can lock, so that no line mixes, however long; -1 where there is none.

    They share one open file, and a lock belongs to an open file: each opens the pipe once more. A container's user
    may not do that with a pipe that root has made.
    """
    try:
        return os.open("/proc/self/fd/1", os.O_WRONLY) if stat.S_ISFIFO(os.fstat(1).st_mode) else -1
    except OSError:
        return -1


def _enlarge_input() -> None:
    try:
        fcntl.fcntl(0, _SET_PIPE_SIZE, _READ)
    except OSError:
        return  # more than this user may have


if __name__ == "__main__":
    main()
