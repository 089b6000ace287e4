"""Safetensors files: u64 length of the header, the header as JSON, the tensors' bytes one after another."""

import json
import os
import struct

from nemo_runspec.artifacts.checks.look import Defect

MYPY = False
if MYPY:
    from typing import Any, Dict, Iterator, List, Tuple

    Header = Dict[str, Any]

_LARGEST = 100000000
"""The library's own bound on a header, in bytes."""
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
    "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


def read_header(file: str) -> "Tuple[Header, List[Defect]]":
    """Tensor -> its type, shape and place; and what is wrong with the file."""
    size = os.path.getsize(file)
    with open(file, "rb") as stream:
        begin = stream.read(8)
        length = struct.unpack("<Q", begin)[0] if len(begin) == 8 else 0
        if not 0 < length <= min(_LARGEST, size - 8):
            return {}, [Defect("is no whole safetensors file: its header does not fit into it", file)]
        try:
            header = json.loads(stream.read(length).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            return {}, [Defect("has a header that is not JSON: %s" % error, file)]
    if not isinstance(header, dict):
        return {}, [Defect("has a header that is no object", file)]
    header.pop("__metadata__", None)
    return header, list(_wrong_places(file, header, size - 8 - length))


def _wrong_places(file: str, header: "Header", size: int) -> "Iterator[Defect]":
    """Tensors lie one behind the other, and have as many bytes as their shape takes."""
    places: "List[Tuple[int, int, str]]" = []
    for name, facts in header.items():
        try:
            begin, end = (int(number) for number in facts["data_offsets"])
            needed = _bytes_of(facts["dtype"], [int(number) for number in facts["shape"]])
        except (KeyError, TypeError, ValueError, OverflowError):
            yield Defect("has no dtype, shape and data_offsets", file, "tensor %s" % name)
            continue
        places.append((begin, end, name))
        if begin < 0 or end < begin or needed not in (None, end - begin):
            words = "is at bytes %d to %d; its shape takes %s bytes"
            yield Defect(words % (begin, end, needed), file, "tensor %s" % name)
    at = 0
    for begin, end, name in sorted(places):
        if begin != at:
            yield Defect("begins at byte %d; the tensor before it ends at %d" % (begin, at), file, "tensor %s" % name)
            return
        at = end
    if at != size:
        yield Defect("has %d bytes of tensors; its header names %d" % (size, at), file)


def _bytes_of(dtype: "Any", shape: "List[int]") -> "Any":
    """How many bytes a tensor takes, None of a type that is not known here."""
    count = 1
    for length in shape:
        if length < 0:
            raise ValueError(length)
        count *= length
    return (count * _BITS[dtype] + 7) // 8 if dtype in _BITS else None
