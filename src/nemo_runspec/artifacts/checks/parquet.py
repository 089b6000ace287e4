"""Parquet files: the footer with the standard library, rows with pyarrow where this Python has it."""

import os
import struct

from nemo_runspec.artifacts.checks.look import Defect, Inspection, files_at
from nemo_runspec.artifacts.checks.thrift import Reader

MYPY = False
if MYPY:
    from typing import Any, Callable, Dict, Iterator, List, Sequence, Set, Tuple

    Columns = Dict[str, List[Any]]
    RowCheck = Callable[[Dict[str, Any]], Iterator[str]]

_MAGIC = b"PAR1"
_ENDINGS = (".parquet", ".pq")
_FILES = 64
_GROUPS = 4
_BATCH = 256
_MANY = 16
"""Batches of a row group that are looked at where not everything is."""


def check_files(
    path: str, look: Inspection, columns: "Sequence[Sequence[str]]", of_row: "RowCheck"
) -> "Iterator[Defect]":
    """All Parquet files at a path.

    Args:
        columns: what each file must have; of several names one is enough.
        of_row: what is wrong with a row, whose
            values are those of the first name of each that there is.
    """
    files = files_at(path, _ENDINGS)
    if not files:
        yield Defect("holds no file that ends with .parquet", path)
        return
    count = 0
    for file in look.some_of(files, _FILES):
        if look.is_over():
            look.note("not all files: the time was up")
            break
        footer, wrong = _footer(file)
        for what in wrong or _wrong_columns(footer, columns):
            yield Defect(what, file)
            wrong = wrong or [what]
        count += int(footer.get(3, 0)) if not wrong else 1
        if not wrong:
            for found in _wrong_rows(file, look, _names_in(footer, columns), of_row):
                yield found
    if not count:
        yield Defect("holds no rows", path)


def columns_of(file: str) -> "Set[str]":
    """The names of a file's columns; none of what is no Parquet file."""
    try:
        return set(_names(_footer(file)[0]))
    except (OSError, ValueError, IndexError, KeyError, TypeError, AttributeError):
        return set()


def _footer(file: str) -> "Tuple[Dict[int, Any], List[str]]":
    """The footer, and what is wrong with the file as a whole."""
    size = os.path.getsize(file)
    with open(file, "rb") as stream:
        begin = stream.read(4)
        stream.seek(max(0, size - 8))
        end = stream.read(8)
        if begin != _MAGIC or end[4:] != _MAGIC:
            return {}, ["is no whole Parquet file: it does not begin and end with PAR1"]
        (length,) = struct.unpack("<I", end[:4])
        if length + 12 > size:
            return {}, ["has a footer of %d bytes, longer than the file" % length]
        stream.seek(size - 8 - length)
        try:
            footer = Reader(stream.read(length)).struct()
            return footer, list(_wrong_chunks(footer, size - 8 - length))
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
            return {}, ["has a footer that cannot be read: %s" % error]


def _wrong_chunks(footer: "Dict[int, Any]", end: int) -> "Iterator[str]":
    """Each column's data lie before the footer, and row groups have the rows that the file says."""
    groups = footer.get(4, [])
    rows = sum(group.get(3, 0) for group in groups)
    if rows != footer.get(3):
        yield "says that it has %s rows; its row groups have %d" % (footer.get(3), rows)
    for number, group in enumerate(groups):
        for column in group[1]:
            facts = column.get(3, {})
            if not facts[5]:  # values
                continue
            begin = min(facts[9], facts.get(11) or facts[9])
            if begin < 4 or begin + facts[7] > end:
                yield "row group %d: column %s lies outside the file" % (number, _text(facts[3][0]))


def _names(footer: "Dict[int, Any]") -> "List[str]":
    """The columns of the top level: the schema is a tree, written depth first."""
    found: "List[str]" = []
    left: "List[int]" = []
    for element in footer.get(2, [])[1:]:
        while left and not left[-1]:
            left.pop()
        if not left:
            found.append(_text(element[4]))
        if left:
            left[-1] -= 1
        if element.get(5):
            left.append(element[5])
    return found


def _wrong_columns(footer: "Dict[int, Any]", columns: "Sequence[Sequence[str]]") -> "Iterator[str]":
    names = _names(footer)
    for either in columns:
        if not any(name in names for name in either):
            yield "has no column %s; it has %s" % (" or ".join(either), ", ".join(names) or "none")


def _names_in(footer: "Dict[int, Any]", columns: "Sequence[Sequence[str]]") -> "List[Tuple[str, str]]":
    """The first name of each column -> the name that it has in this file."""
    names = _names(footer)
    return [(either[0], name) for either in columns for name in either if name in names]


def _wrong_rows(file: str, look: Inspection, names: "List[Tuple[str, str]]", of_row: "RowCheck") -> "Iterator[Defect]":
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        look.note("rows of Parquet files: this Python has no pyarrow")
        return
    try:
        with open(file, "rb") as stream:
            for number, row in _rows(parquet.ParquetFile(stream), look, names):
                for what in of_row(row):
                    yield Defect(what, file, "row %d" % number)
    except (pyarrow.ArrowException, OSError) as error:
        yield Defect("cannot be read: %s" % str(error).splitlines()[0][:200], file)


def _rows(table: "Any", look: Inspection, names: "List[Tuple[str, str]]") -> "Iterator[Tuple[int, Dict[str, Any]]]":
    """The number of a row, from 0 on, and its values."""
    groups, first = table.metadata.num_row_groups, 0
    some = look.some_of([str(number) for number in range(groups)], _GROUPS)
    for group in range(groups):
        number = first
        first += table.metadata.row_group(group).num_rows
        if str(group) not in some or look.is_over():
            continue
        batches = table.iter_batches(batch_size=_BATCH, row_groups=[group], columns=[name for _, name in names])
        for count, batch in enumerate(batches):
            if not look.whole and (count >= _MANY or look.is_over()):
                look.note("rows of large row groups")
                break
            for row in _of_batch(batch, names):
                yield number, row
                number += 1


def _of_batch(batch: "Any", names: "List[Tuple[str, str]]") -> "Iterator[Dict[str, Any]]":
    columns = [(known, batch.column(batch.schema.get_field_index(name)).to_pylist()) for known, name in names]
    for number in range(batch.num_rows):
        yield {known: values[number] for known, values in columns}


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
