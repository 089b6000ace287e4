"""A rank's output on its way to the log: behind the number of its rank, without secrets, counted."""

import fcntl
import os
import stat
import threading

MYPY = False
if MYPY:
    from typing import List, Sequence

_READ = 1 << 20
_LONGEST = 1 << 20
"""Bytes of a line; a longer one becomes several, so that memory does not grow with it."""
_ATOMIC = 4096
"""PIPE_BUF of Linux: a write of at most so many bytes does not mix with those of other processes (man 7 pipe)."""
_SET_PIPE_SIZE = 1031
"""F_SETPIPE_SZ, which the fcntl module knows from Python 3.10 on."""


class Output:
    """Copies what comes out of a pipe to standard output, in a thread, until its end.

    A carriage return ends a line too, so that progress bars are seen. `lines` and `size` (bytes) count what was given
    on, whether it could be written or not; `lost` the lines that could not.

    Args:
        source: the pipe's end, which is closed here. `tag`: what comes before every line.
        hidden: the values of secrets.
    """

    def __init__(self, source: int, tag: str, hidden: "Sequence[bytes]" = (), target: int = 1) -> None:
        self.lines = self.size = self.lost = 0
        self._source, self._target = source, target
        self._tag = os.fsencode(tag)
        self._hidden = _forms_of(hidden)
        self._ended = threading.Event()
        self._lock = _lock(target)

    def start(self) -> None:
        """Starts to copy."""
        _enlarge(self._source)
        threading.Thread(target=self._run, daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Waits for its end; whether it has come."""
        return self._ended.wait(seconds)

    def _run(self) -> None:
        try:
            self._copy()
        except BrokenPipeError:
            pass  # as any writer's whose reader has gone: the rank's next write tells it so
        finally:
            os.close(self._source)
            self._ended.set()

    def _copy(self) -> None:
        held, after_return = bytearray(), False
        while True:
            chunk = os.read(self._source, _READ)
            if not chunk:
                break
            if after_return and chunk[:1] == b"\n":  # one end of line that came in two pieces
                chunk = chunk[1:]
            last = bytes(held[-1:]) + chunk[-2:]
            after_return = last[-1:] == b"\r" and last[-2:-1] not in (b"", b"\r", b"\n")
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            if end:
                self._give(bytes(held) + chunk[:end])
                held = bytearray()
            held += chunk[end:]
            if len(held) > _LONGEST:
                held = self._give_piece(bytes(held))
        if held:
            self._give(bytes(held) + b"\n")

    def _give_piece(self, line: bytes) -> bytearray:
        """Gives on what there is of a line that is too long; what is left: as much as may be the start of a secret."""
        hidden = self._hide(line)
        cut = len(hidden) - max((len(form) - 1 for form in self._hidden), default=0)
        self._give(hidden[:cut] + b"\n")
        return bytearray(hidden[cut:])

    def _hide(self, text: bytes) -> bytes:
        for form in self._hidden:
            if form in text:
                text = text.replace(form, b"******")
        return text

    def _give(self, block: bytes) -> None:
        lines = _lines(self._hide(block))
        if not lines:
            return
        text = self._tag + lines[:-1].replace(b"\n", b"\n" + self._tag) + b"\n"
        count = lines.count(b"\n")
        self.lines += count
        self.size += len(text)
        if not self._write_together(text):
            self.lost += count

    def _write_together(self, text: bytes) -> bool:
        """Writes lines so that none mixes with those of other ranks; whether all of it could be written."""
        if self._lock < 0:
            return self._write_in_pieces(text)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            return self._write(text)
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _write_in_pieces(self, text: bytes) -> bool:
        """Whole lines in writes that do not mix; only a line longer than these may."""
        start = 0
        while start < len(text):
            end = text.rfind(b"\n", start, start + _ATOMIC) + 1 or text.index(b"\n", start) + 1
            if not self._write(text[start:end]):
                return False
            start = end
        return True

    def _write(self, text: bytes) -> bool:
        left = memoryview(text)
        while left:
            try:
                left = left[os.write(self._target, left) :]
            except BlockingIOError:
                os.set_blocking(self._target, True)
            except BrokenPipeError:
                raise
            except OSError:
                return False  # a full disk costs these lines, not the job
        return True


def _lines(block: bytes) -> bytes:
    """Whole lines with `\\n` as their only end. An empty line that `\\r` ends is none: bars begin with one."""
    if b"\r" not in block:
        return block
    *rows, rest = (row.split(b"\r") for row in block.replace(b"\r\n", b"\n").split(b"\n"))
    kept = [part for row in rows for part in (*filter(None, row[:-1]), row[-1])]
    return b"".join(part + b"\n" for part in (*kept, *filter(None, rest)))


def _forms_of(values: "Sequence[bytes]") -> "List[bytes]":
    if not any(values):
        return []
    from nemo_runspec.forms import hidden_forms

    return hidden_forms([value for value in values if value])


def _lock(target: int) -> int:
    """What all ranks that write to this pipe can lock, so that no line mixes, however long; -1 where there is none.

    They share one open file, and a lock belongs to an open file: each opens the pipe once more. A container's user
    may not do that with a pipe that root has made.
    """
    try:
        if stat.S_ISFIFO(os.fstat(target).st_mode):
            return os.open("/proc/self/fd/%d" % target, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        pass
    return -1


def _enlarge(pipe: int) -> None:
    try:
        fcntl.fcntl(pipe, _SET_PIPE_SIZE, _READ)
    except OSError:
        return  # more than this user may have
