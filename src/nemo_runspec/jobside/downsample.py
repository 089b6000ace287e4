"""Downsamples a file of metrics: the last value of every metric stays, and of each curve as many points as fit.

A pod does so at its end; elsewhere it runs where the file lies, by whatever python3 is there, down to 3.6:
`python3 downsample.py FILE`. The memory that it takes does not grow with the file.
"""

import base64
import json
import sys
import zlib

MYPY = False  # true for type checkers; typing takes longer to import than all the rest
if MYPY:
    from collections.abc import Iterable

    Record = dict[str, float]
    Kept = tuple[int, Record]

POINTS = 400
"""Records that are kept, at most, of those that have the same metrics."""

_SETS = 32
"""How many different sets of metrics have a curve; of further ones only the last values stay."""

_PACKED = 32 << 10
_LINE = 3000
"""Bytes of a packed file, at most, where its last values fit into that; and of each of its lines."""

_LARGEST = 1 << 1000
"""Above any number that a float can be made of, with room; JSON's own numbers have no limit."""


class Downsampled:
    """What is kept of records that come one after the other."""

    def __init__(self) -> None:
        self._count = 0
        self._curves: dict[frozenset[str], _Curve] = {}
        self._last: dict[str, Kept] = {}

    def add(self, record: "Record") -> None:
        """Takes the next record: metric -> value."""
        kept = (self._count, record)
        self._count += 1
        for name in record:
            self._last[name] = kept
        names = frozenset(record)
        if names in self._curves or len(self._curves) < _SETS:
            self._curves.setdefault(names, _Curve()).add(kept)

    def records(self, most: "int | None" = None) -> "list[Record]":
        """The records that are kept, in their order; `most` bounds those of one curve further."""
        found = dict(self._last.values())
        for curve in self._curves.values():
            found.update(curve.thinned(most))
        return [found[number] for number in sorted(found)]


class _Curve:
    """Every n-th record of a kind, n doubled whenever they become too many."""

    def __init__(self) -> None:
        self._kept: list[Kept] = []
        self._stride, self._count = 1, 0

    def add(self, kept: "Kept") -> None:
        if self._count % self._stride == 0:
            self._kept.append(kept)
        self._count += 1
        if len(self._kept) > POINTS:
            self._kept = self._kept[::2]
            self._stride *= 2

    def thinned(self, most: "int | None") -> "list[Kept]":
        every = 1 if not most else max(1, -(-len(self._kept) // most))
        return self._kept[::every]


def numbers(line: bytes) -> "Record":
    """Metric -> value of one line (bytes) of a metrics file, numbers only; empty for what is no JSON object."""
    try:
        record = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return {name: value for name, value in record.items() if is_number(value)} if isinstance(record, dict) else {}


def is_number(value: object) -> bool:
    """True if a value of JSON is a number that a float can hold."""
    return type(value) is float or (type(value) is int and -_LARGEST < value < _LARGEST)


def downsample(lines: "Iterable[bytes]") -> Downsampled:
    """What is kept of the lines (bytes) of a metrics file."""
    kept = Downsampled()
    for line in lines:
        record = numbers(line)
        if record:
            kept.add(record)
    return kept


def as_lines(records: "Iterable[Record]") -> bytes:
    """Records as the text of a metrics file (bytes)."""
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def packed(kept: Downsampled) -> "list[str]":
    """The same in lines that a log can carry: `z:NUMBER/COUNT:BASE64`. Empty without records."""
    most = POINTS
    text = _pack(kept.records())
    while len(text) > _PACKED and most > 2:
        most //= 2
        text = _pack(kept.records(most))
    pieces = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    return [f"z:{number}/{len(pieces)}:{piece}" for number, piece in enumerate(pieces, 1)]


def _pack(records: "list[Record]") -> str:
    return base64.b64encode(zlib.compress(as_lines(records), 9)).decode() if records else ""


def main() -> None:
    """Prints what is kept of a file."""
    with open(sys.argv[1], "rb") as lines:
        kept = downsample(lines)
    sys.stdout.buffer.write(as_lines(kept.records()))


if __name__ == "__main__":
    main()
