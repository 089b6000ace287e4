"""Sizes and digests of what lies at a path: of what is cheap to read. Python 3.6: it travels with jobs.

A digest is `KIND:HEX`. `sha256`: over the contents of all files. `sampled`: of large files only the size and six blocks
from beginning to end were read, and of what is beyond the budget the size alone. Times and owners are not in it: a copy
has the same digest.
"""

import hashlib
import os

MYPY = False
if MYPY:
    from typing import Any, Dict, Iterator, Tuple

WHOLE = 8 << 20
"""Bytes up to which a file is read whole."""
BUDGET = 256 << 20
"""Bytes that are read in all."""
_BLOCK = 1 << 20
_SAMPLES = 6


def measured(path: str, budget: int = BUDGET) -> "Dict[str, Any]":
    """`digest`, `size` in bytes and `files` of a file or folder. Raises `OSError` where it cannot be read.

    Args:
        budget: bytes that are read at most.
    """
    whole, left, size, count = True, budget, 0, 0
    total = hashlib.sha256()
    for name, file in files_below(path):
        if os.path.islink(file):
            line = "link\0" + os.readlink(file)
        else:
            length = os.stat(file).st_size
            read = _worth(length)
            if read > left:
                line, whole = "size\0%d" % length, False
            else:
                line, left = "%s\0%d" % (_digest(file, length), length), left - read
                whole = whole and length <= WHOLE
            size, count = size + length, count + 1
        total.update(("%s\0%s\n" % (name, line)).encode("utf-8", "surrogateescape"))
    return {"digest": "%s:%s" % ("sha256" if whole else "sampled", total.hexdigest()), "size": size, "files": count}


def files_below(path: str) -> "Iterator[Tuple[str, str]]":
    """Every file and link below, in the order of names, by its name there. No link is followed."""
    if not os.path.isdir(path):
        yield "", path
        return
    pending = [""]
    while pending:
        folder = pending.pop()
        below = []
        for name in sorted(os.listdir(os.path.join(path, folder) if folder else path)):
            relative = folder + "/" + name if folder else name
            file = path + "/" + relative
            if os.path.isdir(file) and not os.path.islink(file):
                below.append(relative)
            elif os.path.islink(file) or os.path.isfile(file):
                yield relative, file
        pending += reversed(below)


def _worth(length: int) -> int:
    return length if length <= WHOLE else _BLOCK * _SAMPLES


def _digest(file: str, length: int) -> str:
    found = hashlib.sha256()
    with open(file, "rb") as stream:
        if length <= WHOLE:
            for block in iter(lambda: stream.read(_BLOCK), b""):
                found.update(block)
        else:
            for number in range(_SAMPLES):
                stream.seek((length - _BLOCK) * number // (_SAMPLES - 1))
                found.update(stream.read(_BLOCK))
    return found.hexdigest()
