"""One look at a path: how much of it is read, what was found, what was not looked at."""

import os
import time

MYPY = False
if MYPY:
    from typing import Dict, Iterator, List, Sequence, Tuple


class Defect(object):
    """Something that is wrong.

    Args:
        what: what is wrong.
        file: the path it is wrong in.
        place: where in that file: `line 12`, `row 3`, `tensor lm_head.weight`.
    """

    def __init__(self, what: str, file: str = "", place: str = "") -> None:
        self.what = what
        self.file = file
        self.place = place

    def as_dict(self) -> "Dict[str, str]":
        """As plain JSON."""
        return {"file": self.file, "place": self.place, "what": self.what}


class Unchecked(Exception):
    """What cannot be checked here, and why; that is no finding."""


class Inspection(object):
    """How a path is looked at.

    Args:
        whole: everything is read; else the beginning, the end and some of what lies between.
        seconds: how long that may take where not everything is read.
    """

    def __init__(self, whole: bool, seconds: float) -> None:
        self.whole = whole
        self.notes: "List[str]" = []
        self._until = time.monotonic() + seconds

    def is_over(self) -> bool:
        """True if the time is up: what has not been looked at by now is left."""
        return not self.whole and time.monotonic() > self._until

    def note(self, text: str) -> None:
        """Keeps what was not looked at, in words, once."""
        if text not in self.notes:
            self.notes.append(text)

    def some_of(self, files: "List[str]", most: int) -> "List[str]":
        """Files to be looked into: all, or of many the first, the last and some between, evenly."""
        if self.whole or len(files) <= most:
            return files
        self.note("%d of %d files" % (most, len(files)))
        return [files[number * (len(files) - 1) // (most - 1)] for number in range(most)]


def files_at(path: str, endings: "Sequence[str]") -> "List[str]":
    """The file itself, or the files below a folder with one of these endings, sorted; hidden ones are left out."""
    if not os.path.isdir(path):
        return [path]
    found = []
    for parent, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [os.path.join(parent, name) for name in files if not name.startswith(".")]
    return sorted(file for file in found if file.endswith(tuple(endings)))


def spans(total: int, size: int, look: Inspection) -> "Iterator[Tuple[int, int]]":
    """Parts of so many items, each at most `size`: all, or the beginning, the end and some between."""
    count = (total + size - 1) // size
    numbers = range(count) if look.whole or count <= 8 else [number * (count - 1) // 7 for number in range(8)]
    for number in numbers:
        if look.is_over():
            return
        yield number * size, min(total, (number + 1) * size)
