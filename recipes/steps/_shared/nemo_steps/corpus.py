"""Reads a corpus (text, Markdown, JSON lines or Parquet, in folders by subject) and cuts it into passages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nemo_steps import files
from nemo_steps.config import ConfigError

ENDINGS = (".txt", ".md", ".jsonl", ".jsonl.gz", ".parquet")


@dataclass(frozen=True)
class Passage:
    """A part of a text. `subject`: the folder that it lies in, '' directly in the corpus; `source`: its file."""

    text: str
    subject: str
    source: str


def passages(path: str, text_field: str, words: int) -> list[Passage]:
    """Every text of a corpus in parts of at most so many words; a last part of less than half of that is left out.

    Raises:
        ConfigError: there is no text.
    """
    place = files.find(path)
    found = sorted(file for file in place.rglob("*") if file.name.endswith(ENDINGS)) if place.is_dir() else [place]
    made = [
        Passage(part, _subject(file, place), file.name)
        for file in found
        for text in _texts(file, text_field)
        for part in _parts(text.split(), words)
    ]
    if not made:
        raise ConfigError(f"no text at {path}: {', '.join(ENDINGS)}; rows hold it under {text_field!r}")
    return made


def chosen(found: list[Passage], count: int, seed: int) -> list[Passage]:
    """So many passages by chance, each as often as any other."""
    chance, made = random.Random(seed), []
    while len(made) < count:
        made += chance.sample(found, min(count - len(made), len(found)))
    return made


def _subject(file: Path, root: Path) -> str:
    return file.relative_to(root).parts[0] if file.parent != root and file != root else ""


def _texts(file: Path, text_field: str) -> Iterator[str]:
    if file.suffix in (".txt", ".md"):
        yield file.read_text(encoding="utf-8")
    elif file.suffix == ".parquet":
        import pyarrow.parquet

        for batch in pyarrow.parquet.ParquetFile(file).iter_batches(columns=[text_field]):
            yield from (text for text in batch.column(0).to_pylist() if text)
    else:
        yield from (str(row[text_field]) for row in files.read_rows([file]) if row.get(text_field))


def _parts(found: list[str], words: int) -> Iterator[str]:
    for start in range(0, len(found), words):
        part = found[start : start + words]
        if start == 0 or 2 * len(part) >= words:
            yield " ".join(part)
