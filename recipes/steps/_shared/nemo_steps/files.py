"""Finds a step's input files, those too that travel with the job, and reads rows of JSON out of them."""

from __future__ import annotations

import glob
import gzip
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from nemo_steps.config import ConfigError

BUNDLE = "bundle:"
ROWS = (".jsonl", ".jsonl.gz")


def find(path: str, step: Path | None = None) -> Path:
    """The place of an input.

    Args:
        path: a path; `bundle:REL` is a file that travels with the job, below the step's own folder or, where it is not
            there, below this package.
        step: the step's folder, by default that of the script that was started.

    Raises:
        ConfigError: no such file or folder.
    """
    if not path.startswith(BUNDLE):
        return _there(Path(path).expanduser(), path)
    relative = path[len(BUNDLE) :]
    own = (step or Path(sys.argv[0]).resolve().parent) / relative
    return own if own.exists() else _there(Path(__file__).resolve().parent / relative, path)


def row_files(path: str) -> list[Path]:
    """The files with rows of JSON at a path: a file, those of a folder (and of folders in it), or those of a pattern.

    Raises:
        ConfigError: there are none.
    """
    if glob.has_magic(path):
        found = [Path(match) for match in sorted(glob.glob(path, recursive=True))]  # noqa: PTH207 - absolute patterns
    else:
        place = find(path)
        found = sorted(file for file in place.rglob("*") if file.name.endswith(ROWS)) if place.is_dir() else [place]
    files = [file for file in found if file.is_file()]
    if not files:
        raise ConfigError(f"no file with rows of JSON ({', '.join(ROWS)}) at {path}")
    return files


def read_rows(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """The rows of JSON-lines files, gzipped ones too, one after another.

    Raises:
        ConfigError: a line is no JSON object; names the file and the line.
    """
    for file in files:
        with _text(file) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _row(line, file, number)


def write_rows(file: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write a JSON-lines file, whole or not at all; returns how many rows it has."""
    partial, count = file.with_name(f".partial-{file.name}"), 0
    with partial.open("w", encoding="utf-8") as stream:
        for row in rows:
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    partial.replace(file)
    return count


def link(file: Path, place: Path) -> None:
    """Let a file be at a second place too: the same file where one file system holds both, else a copy."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    try:
        os.link(file, place)
    except OSError:  # another file system, or one without links
        shutil.copyfile(file, place)


def _there(place: Path, said: str) -> Path:
    if not place.exists():
        raise ConfigError(f"there is nothing at {said}")
    return place


def _text(file: Path) -> IO[str]:
    return gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8")


def _row(line: str, file: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{file}:{number}: {error}") from error
    if not isinstance(row, dict):
        raise ConfigError(f"{file}:{number}: no JSON object")
    return row
