"""Finds files of rows, cuts them into pieces of which each is read on its own, and sends a document to a split."""

from __future__ import annotations

import glob
import gzip
import hashlib
import io
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from nano3 import tables
from nano3.cleaning import text_of
from nano3.hub import HUB, hub_files
from nano3.pieces import Piece
from nano3.settings import SettingsError

JSON_SUFFIXES = {".jsonl", ".json", ".ndjson"}
BLOCK = 1 << 20


def find_files(patterns: Sequence[str], recipe_folder: Path) -> list[Path]:
    """The files that the patterns match, each once, in order; `recipe://` stands for the recipe's own folder.

    A folder stands for the files of the dataset that `save_to_disk` wrote there, and else for nothing.
    `hf://datasets/OWNER/NAME[@REVISION]/PATTERN` is what Hugging Face's hub has, which is fetched into its cache.

    Raises:
        SettingsError: a pattern matches no file.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        place = hub_files(pattern) if pattern.startswith(HUB) else pattern
        place = place.replace("recipe://", f"{glob.escape(str(recipe_folder))}/", 1)
        matches = sorted(Path(match) for match in glob.glob(place, recursive=True))  # noqa: PTH207 - absolute patterns
        files = [file for match in matches for file in ([match] if match.is_file() else tables.saved_files(match))]
        if not files:
            raise SettingsError(f"no file matches {pattern!r}")
        found.update(dict.fromkeys(files))
    return list(found)


def pieces_of(path: Path, size: int) -> Iterator[Piece]:
    """The pieces of a file, in order: of about `size` bytes where it has lines of JSON or is a table, else the file."""
    whole = path.stat().st_size
    if tables.is_table(path.name):
        yield from tables.pieces_of(path, size)
        return
    if path.suffix == ".gz" or not _is_json(path) or whole <= size:
        yield Piece(str(path), whole)
        return
    start = 0
    with path.open("rb") as stream:
        while start < whole:
            stream.seek(min(start + size, whole) - 1)
            stream.readline()
            end = stream.tell()
            yield Piece(str(path), end - start, start, end)
            start = end


def texts_of(
    piece: Piece,
    field: str,
    separator: str | None,
    form: str | None = None,
    without_control: bool = False,
    *,
    dropped: Counter[str] | None = None,
) -> Iterator[str]:
    """The text of each row, clean, '' for one that has none: a field of an object, or what separators part.

    Args:
        dropped: gets the reasons of those that have none.

    Raises:
        SettingsError: a row is no object, or has no such field, or the file cannot be read.
    """
    for value in _values(piece, field, separator):
        text, reason = text_of(value, form, without_control)
        if reason and dropped is not None:
            dropped[reason] += 1
        yield text


def is_cut(path: Path) -> bool:
    """Whether a file has rows that are told apart without reading it whole: lines of JSON, or those of a table."""
    return tables.is_table(path.name) or _is_json(path)


def objects_of(piece: Piece) -> Iterator[tuple[int, Any]]:
    """What the lines hold that are not blank, or the rows of a table, with their numbers within the piece.

    A line that is no JSON has None.
    """
    if tables.is_table(piece.path):
        yield from enumerate(tables.rows_of(piece), start=1)
        return
    with _readable(piece.path), _opened(piece, newline=None) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    row = None
                yield number, row


def place_of(piece: Piece, number: int) -> str:
    """The file and the line or row in it, for messages. `number`: of the line or row within the piece."""
    if tables.is_table(piece.path):
        return f"{piece.path}:{tables.rows_before(piece) + number}"
    with open(piece.path, "rb") as stream:  # noqa: PTH123 - a piece travels as text
        before, left = 0, piece.start
        while left and (block := stream.read(min(BLOCK, left))):
            before += block.count(b"\n")
            left -= len(block)
    return f"{piece.path}:{before + number}"


def split_of(text: str, seed: int, valid: float, test: float) -> str:
    """The split of a document: fixed by its text and the seed, so equal documents never lie on both sides."""
    digest = hashlib.sha256(f"{seed}\n{text}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < valid:
        return "valid"
    return "test" if place < valid + test else "train"


def _is_json(path: Path) -> bool:
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    return bool(suffixes) and suffixes[-1] in JSON_SUFFIXES


def _values(piece: Piece, field: str, separator: str | None) -> Iterator[object]:
    if not is_cut(Path(piece.path)):
        yield from _parts(piece, separator)
        return
    for number, row in objects_of(piece):
        try:
            value = row[field]
        except (KeyError, TypeError) as error:
            raise SettingsError(f"{place_of(piece, number)}: no JSON object with a field {field!r}") from error
        yield value


def _parts(piece: Piece, separator: str | None) -> Iterator[str]:
    """A text cut at the separators from its beginning on, as `str.split` does it, with one part in memory."""
    with _readable(piece.path), _opened(piece, newline="") as stream:
        if not separator:
            yield stream.read()
            return
        held = ""
        while block := stream.read(BLOCK):
            *parts, held = (held + block).split(separator)
            yield from parts
        yield held


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Names the file whose content is no gzip; what a disk has for errors is none of the user's, and goes on."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error


def _opened(piece: Piece, newline: str | None) -> IO[str]:
    """A piece as text. Bytes that are no UTF-8 become lone surrogates, which tell the row that they stand in."""
    as_text: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape", "newline": newline}
    if piece.path.endswith(".gz"):
        return gzip.open(piece.path, "rt", **as_text)
    stream = open(piece.path, "rb")  # noqa: PTH123, SIM115 - closed with what wraps it
    if piece.end is None:
        return io.TextIOWrapper(stream, **as_text)
    stream.seek(piece.start)
    return io.TextIOWrapper(io.BufferedReader(_Part(stream, piece.end - piece.start), BLOCK), **as_text)


class _Part(io.RawIOBase):
    """The next `left` bytes of a stream."""

    def __init__(self, stream: IO[bytes], left: int) -> None:
        super().__init__()
        self._stream, self._left = stream, left

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As any raw stream."""
        block = self._stream.read(min(len(buffer), self._left))
        buffer[: len(block)] = block
        self._left -= len(block)
        return len(block)

    def close(self) -> None:
        """Close what it reads."""
        self._stream.close()
        super().close()
