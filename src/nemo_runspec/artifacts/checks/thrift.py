"""Thrift's compact protocol, as far as the footer of a Parquet file needs it: structs become number -> value."""

import struct

MYPY = False
if MYPY:
    from typing import Any, Dict

_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12
_DEEPEST = 64


class Reader(object):
    """Reads one struct. What is no struct raises `ValueError` or `IndexError`."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def struct(self, depth: int = 0) -> "Dict[int, Any]":
        """The next struct."""
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        found: "Dict[int, Any]" = {}
        number = 0
        while True:
            head = self._byte()
            if head & 15 == _STOP:
                return found
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            found[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth + 1)

    def _value(self, kind: int, depth: int) -> "Any":
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == _DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _MAP:
            return self._map(depth)
        if kind == _STRUCT:
            return self.struct(depth)
        raise ValueError("no type of Thrift's: %d" % kind)

    def _list(self, depth: int) -> "Any":
        head = self._byte()
        count = head >> 4 if head >> 4 != 15 else self._varint()
        if count > len(self._content):
            raise ValueError("a list longer than all there is")
        return [self._value(head & 15, depth + 1) for _ in range(count)]

    def _map(self, depth: int) -> "Any":
        count = self._varint()
        if count > len(self._content):
            raise ValueError("a map longer than all there is")
        kinds = self._byte() if count else 0
        return [(self._value(kinds >> 4, depth + 1), self._value(kinds & 15, depth + 1)) for _ in range(count)]

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        if count > len(self._content) - self._at:
            raise ValueError("cut short")
        self._at += count
        return self._content[self._at - count : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError("a number that does not end")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
