"""Finds documents in text and JSON-lines files and sends each to a split by its own content."""

from __future__ import annotations

import glob
import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from nano3.settings import SettingsError

JSON_SUFFIXES = {".jsonl", ".json", ".ndjson"}


def find_files(patterns: Sequence[str], recipe_folder: Path) -> list[Path]:
    """The files that the patterns match, each once, in order; `recipe://` stands for the recipe's own folder.

    Raises:
        SettingsError: a pattern matches no file.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        place = pattern.replace("recipe://", f"{glob.escape(str(recipe_folder))}/", 1)
        matches = sorted(Path(match) for match in glob.glob(place, recursive=True))  # noqa: PTH207 - absolute patterns
        files = [match for match in matches if match.is_file()]
        if not files:
            raise SettingsError(f"no file matches {pattern!r}")
        found.update(dict.fromkeys(files))
    return list(found)


def documents(path: Path, field: str, separator: str | None) -> Iterator[str]:
    """The documents of one file: the text field of each JSON line, or a text file cut at `separator`.

    Raises:
        SettingsError: a line is no JSON object, or has no such field.
    """
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    is_json = bool(suffixes) and suffixes[-1] in JSON_SUFFIXES
    texts = _json_texts(path, field) if is_json else _plain_texts(path, separator)
    for text in texts:
        if stripped := text.strip():
            yield stripped


def split_of(text: str, seed: int, valid: float, test: float) -> str:
    """The split of a document: fixed by its text and the seed, so equal documents never lie on both sides."""
    digest = hashlib.sha256(f"{seed}\n{text}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < valid:
        return "valid"
    return "test" if place < valid + test else "train"


def _json_texts(path: Path, field: str) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield str(json.loads(line)[field])
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise SettingsError(f"{path}:{number}: no JSON object with a field {field!r}") from error


def _plain_texts(path: Path, separator: str | None) -> list[str]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = content.decode("utf-8")
    return text.split(separator) if separator else [text]
