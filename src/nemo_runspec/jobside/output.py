"""A rank's output on its way to the log: behind the number of its rank where there are several, without secrets,
counted."""

import _thread
import fcntl
import os
import stat
import sys
import time

from nemo_runspec.jobside.clock import within
from nemo_runspec.jobside.drawing import BAR, END, PROMPT, SHOWN, Pace, cleared, in_one_line, last_of

MYPY = False
if MYPY:
    from typing import List, Sequence, Union

READ = 128 << 10
"""Bytes that are taken at once, into a buffer that stays: new memory for each piece would be asked of the kernel."""
OURS = b"nemotron"
"""How lines begin by which the job's side speaks, to a person and to whoever reads the log (`script/pod_marker.py`)."""
_PIPE = 1 << 20
"""Bytes that the command can be ahead, and we of the reader."""
_LONGEST = 1 << 20
"""Bytes of a line; a longer one becomes several, so that memory does not grow with it."""
_ATOMIC = 4096
"""PIPE_BUF of Linux: a write of at most so many bytes does not mix with those of other processes (man 7 pipe)."""
_SET_PIPE_SIZE = 1031
"""F_SETPIPE_SZ, which the fcntl module knows from Python 3.10 on."""
_FIONREAD = 0x541B  # termios.FIONREAD
_STUCK = 60.0
"""Seconds without any progress after which the log's reader is given up, once the command has ended."""


class RankOutput:
    """Copies what comes out of a pipe to standard output, in a thread, until its end.

    A line that carriage returns draw again and again, as those of progress bars do, is given on as it was drawn last.
    `lines` and `size` (bytes) count what was given on, whether it could be written or not, `lost` the lines that could
    not. States are no lines, but have a size.

    Args:
        source: the pipe's end, which is closed here.
        tag: what comes before every line; '' for nothing, but before
            lines that look like ours (`OURS`), which no job can say.
        hidden: the values of secrets.
    """

    def __init__(self, source: int, tag: str, hidden: "Sequence[bytes]" = (), target: int = 1) -> None:
        self.lines = self.size = self.lost = 0
        self._source, self._target = source, target
        self._tag = os.fsencode(tag)
        self._hidden = _forms_of(hidden)
        self._held = bytearray()
        self._pace = Pace(source)
        self._taken = 0
        self._ended = _thread.allocate_lock()
        self._busy = _thread.allocate_lock()
        self._lock = _lock(target)

    def start(self) -> None:
        """Starts to copy."""
        enlarge(self._source)
        enlarge(self._target)
        self._ended.acquire()
        _thread.start_new_thread(self._run, ())

    def wait(self, seconds: float) -> bool:
        """Waits for its end; whether it has come.

        Args:
            seconds: how long, where a process that the command has left behind holds the pipe open. What was in the
                pipe by now is given on in any case, as long as somebody reads the log.
        """
        there = self._taken + _bytes_in(self._source)
        if self._has_ended(seconds):
            return True
        seen, until = -1, 0.0
        while self._taken < there and not self._has_ended(0.05):
            if self._taken + self.size != seen:
                seen, until = self._taken + self.size, time.monotonic() + _STUCK
            elif time.monotonic() >= until:
                return False
        # What it copies now is written then, and it takes no more.
        if within(_STUCK, lambda: self._busy.acquire(False)):
            try:
                self._give_rest()
            except BrokenPipeError:
                pass
        return False

    def _has_ended(self, seconds: float) -> bool:
        if not within(seconds, lambda: self._ended.acquire(False)):
            return False
        self._ended.release()
        return True

    def _run(self) -> None:
        try:
            self._copy()
        except BrokenPipeError:
            pass  # as any writer's whose reader has gone: the rank's next write tells it so
        finally:
            os.close(self._source)
            if self._lock >= 0:
                os.close(self._lock)
            self._ended.release()

    def _copy(self) -> None:
        buffer = bytearray(READ)
        while True:
            while not self._pace.is_time_to_read():
                with self._busy:
                    self._give_state()
            count = os.readv(self._source, [buffer])
            with self._busy:
                self._taken += count
                if not count:
                    self._give_rest()
                    return
                self._take(buffer, count)

    def _take(self, buffer: bytearray, count: int) -> None:
        is_drawn = buffer.find(b"\r", 0, count) >= 0 or b"\r" in self._held
        if is_drawn:
            buffer = bytearray(in_one_line(bytes(self._held + buffer[:count])))
            self._held, count = bytearray(), len(buffer)
        end = buffer.rfind(b"\n", 0, count) + 1
        if end:
            with memoryview(buffer) as view:
                whole = b"".join((self._held, view[:end]))
            self._held = bytearray()
            self._give(whole, is_drawn)
            self._pace.begin()
        self._held += buffer[end:count]
        if is_drawn:
            self._draw()
        if len(self._held) > _LONGEST:
            self._held = self._give_piece(bytes(self._held))
        if self._held:
            self._pace.changed()

    def _draw(self) -> None:
        """Of a line that is drawn again only the last state is kept."""
        *drawn, rest = self._held.split(b"\r")
        if drawn:
            self._held = bytearray(b"\r".join((last_of(drawn), rest)))
            self._pace.is_bar |= len(drawn) > 1 or bool(rest)  # else it may be the first half of `\r\n`

    def _give_state(self) -> None:
        """Tells how the line is that is not whole yet."""
        state = self._without_begun(self._hide(last_of(self._held.split(b"\r"))))[:SHOWN]
        if state.strip():
            own = b"[rank0] " if state.startswith(OURS) and not self._tag else b""
            head = (BAR if self._pace.is_bar else PROMPT) + self._tag
            self.size += len(head + own + state + END)
            self._write_together(head, memoryview(own + state + END))
        self._pace.shown()

    def _give_rest(self) -> None:
        """Gives on a last line without an end."""
        if self._held.strip(b"\r"):
            self._give(bytes(self._held) + b"\n")
            self._held = bytearray()

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

    def _without_begun(self, text: bytes) -> bytes:
        if not self._hidden:
            return text
        from nemo_runspec.forms import without_begun

        return without_begun(text, self._hidden)

    def _give(self, block: bytes, is_drawn: bool = True) -> None:
        """Gives on whole lines.

        Args:
            is_drawn: False where no carriage return is among them, which takes long to find out.
        """
        lines = self._hide(block)
        if is_drawn:
            lines = cleared(lines)
        if not lines:
            return
        if self._tag:
            text = lines.replace(b"\n", b"\n" + self._tag)
            count = (len(text) - len(lines)) // len(self._tag)
        else:
            text = _disowned(lines)
            count = lines_in(text)
        self.lines += count
        self.size += len(text)
        if not self._write_together(self._tag, memoryview(text)[: len(text) - len(self._tag)]):
            self.lost += count

    def _write_together(self, tag: bytes, text: memoryview) -> bool:
        """Writes lines, the first behind its tag, so that none mixes with those of others; whether all could be."""
        if self._lock < 0:
            return self._write_in_pieces(tag + text)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError:  # the kernel has no more of them: a copy that ended here would end the command
            return self._write_in_pieces(tag + text)
        try:
            return write_all(self._target, tag, text)
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _write_in_pieces(self, text: bytes) -> bool:
        """Whole lines in writes that do not mix; only a line longer than these may."""
        start = 0
        while start < len(text):
            end = text.rfind(b"\n", start, start + _ATOMIC) + 1 or text.index(b"\n", start) + 1
            if not write_all(self._target, text[start:end]):
                return False
            start = end
        return True


def write_all(target: int, *parts: "Union[bytes, bytearray, memoryview]") -> bool:
    """Writes all of a text; whether that could be done. Raises `BrokenPipeError` where nobody reads any more.

    Args:
        parts: of the text, in one write where it takes them all.
    """
    left = [memoryview(part) for part in parts]
    while left:
        try:
            written = os.writev(target, left)
        except BlockingIOError:
            os.set_blocking(target, True)
            continue
        except BrokenPipeError:
            raise
        except OSError:
            return False  # a full disk costs these lines, not the job
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if written:
            left[0] = left[0][written:]
    return True


def _disowned(lines: bytes) -> bytes:
    """Lines of the only rank: those that look like ours have its number before them."""
    if OURS not in lines:
        return lines
    return (b"\n" + lines).replace(b"\n" + OURS, b"\n[rank0] " + OURS)[1:]


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


def _bytes_in(pipe: int) -> int:
    """How many bytes are in a pipe, 0 where it is closed."""
    try:
        found = fcntl.ioctl(pipe, _FIONREAD, bytes(4))
    except OSError:
        return 0
    return int.from_bytes(found, sys.byteorder)


def lines_in(text: "Union[bytes, bytearray]") -> int:
    """How many lines have ended. As `count`, which looks at every byte by itself and takes three times as long."""
    return len(text) - len(text.replace(b"\n", b""))


def enlarge(pipe: int) -> None:
    """Lets a pipe hold more than it does by default."""
    try:
        fcntl.fcntl(pipe, _SET_PIPE_SIZE, _PIPE)
    except OSError:
        return  # no pipe, or more than this user may have
