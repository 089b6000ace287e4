"""Lines of a text file, which may be compressed: all, or its beginning, its end and some between."""

import gzip
import os
import random
import zlib

from nemo_runspec.artifacts.checks.look import Defect, Inspection

MYPY = False
if MYPY:
    from typing import IO, Any, Iterator, List, Tuple

    Line = Tuple[int, int, bytes]
    """The number of a line, from 1 on, 0 where it is not known; where it begins; what it holds."""

_LONGEST = 64 << 20
_FIRST = 2000
_BETWEEN = 200
_LAST = 1 << 18
_COUNTED = 4 << 30
_BLOCK = 1 << 20


class Lines(object):
    """The lines of a file that are looked at; what is wrong with it as a file is among `wrong` afterwards."""

    def __init__(self, file: str, look: Inspection) -> None:
        self.file = file
        self.wrong: "List[Defect]" = []
        self._look = look

    def read(self) -> "Iterator[Line]":
        """The lines, one after another."""
        packed = self.file.endswith(".gz")
        try:
            with self._opened() as stream:
                for line in self._first(stream):
                    yield line
                if not packed and not self._look.whole:
                    for line in self._others(stream):
                        yield line
        except (EOFError, zlib.error) as error:
            self.wrong.append(Defect("its compressed data are cut short or damaged (%s)" % error, self.file))
        except OSError as error:
            # What gzip says of such a file has no number, up to Python 3.7 and later on.
            if error.errno is not None or not packed:
                raise
            self.wrong.append(Defect("it is not compressed as its name says (%s)" % error, self.file))

    def place(self, line: "Line") -> str:
        """Where a line is, in words."""
        number, begin, _ = line
        if number == 0 and begin <= _COUNTED:
            number = self._number_at(begin)
        return "line %d" % number if number else "byte %d" % begin

    def _opened(self) -> "Any":
        if self.file.endswith(".gz"):
            return gzip.open(self.file, "rb")
        return open(self.file, "rb")

    def _first(self, stream: "IO[bytes]") -> "Iterator[Line]":
        number, begin = 0, 0
        while self._look.whole or (number < _FIRST and not self._look.is_over()):
            text = stream.readline(_LONGEST)
            if not text:
                return
            number += 1
            length = len(text) + self._skip(stream, text, number)
            if length == len(text):
                yield number, begin, text
            begin += length

    def _skip(self, stream: "IO[bytes]", text: bytes, number: int) -> int:
        """Passes over the rest of a line that is too long to be read; its length."""
        passed = 0
        while len(text) == _LONGEST and not text.endswith(b"\n"):
            self._look.note("line %d of %s is longer than %d MB" % (number, self.file, _LONGEST >> 20))
            text = stream.readline(_LONGEST)
            passed += len(text)
        return passed

    def _others(self, stream: "IO[bytes]") -> "Iterator[Line]":
        """Lines behind the first ones."""
        begin, size = stream.tell(), os.fstat(stream.fileno()).st_size
        if begin >= size:
            return
        self._look.note("lines at the beginning, at the end and between")
        chance = random.Random(size)
        last = max(begin, size - _LAST)
        places = sorted(chance.randrange(begin, last) for _ in range(_BETWEEN)) if last > begin else []
        for place in places:
            if self._look.is_over():
                break
            for line in self._from(stream, place, place + 1):
                yield line
        for line in self._from(stream, last, size):
            yield line

    def _from(self, stream: "IO[bytes]", begin: int, end: int) -> "Iterator[Line]":
        """Lines that begin between two places."""
        stream.seek(begin - 1)
        at = begin - 1 + len(stream.readline(_LONGEST))
        first = True
        while (at < end or first) and not self._look.is_over():
            text = stream.readline(_LONGEST)
            if not text or (len(text) == _LONGEST and not text.endswith(b"\n")):
                return
            yield 0, at, text
            at += len(text)
            first = False

    def _number_at(self, begin: int) -> int:
        number, left = 1, begin
        with open(self.file, "rb") as stream:
            while left > 0:
                block = stream.read(min(_BLOCK, left))
                if not block:
                    break
                number += block.count(b"\n")
                left -= len(block)
        return number
