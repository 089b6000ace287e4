"""Rows of a table: a key, its value, where that comes from. Values are never cut, and never broken by us."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from nemo_runspec.source import Source
from nemo_runspec.text import clean
from nemotron.cli.text import paint

_WIDE = 34
"""Values longer than this do not move the column beside them."""


@dataclass(frozen=True)
class PageRow:
    """One fact. `note`: what else is to be said of it, on a line below."""

    key: str
    value: Any
    source: str = ""
    note: str = ""


class ShownPlaces:
    """How sources are named on a page: by the shortest end of a file's path that no other file has.

    Args:
        sources: of all values.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        self._short = _short_names({source.file for source in sources if source.file is not None})

    def name(self, source: Source | None) -> str:
        """`env.toml:4 [base]`, `tiny.yaml:41`, `command line`, or what made the value."""
        if source is None:
            return ""
        if source.file is None:
            return source.label()
        line = f":{source.line}" if source.line else ""
        section = f" [{source.section}]" if source.section else ""
        return f"{self.file(source)}{line}{section}{f' {source.text}' if source.text else ''}"

    def file(self, source: Source) -> str:
        """The file alone, '' for none."""
        return self._short.get(source.file or "", "")


def _short_names(files: set[str]) -> dict[str, str]:
    ends: dict[str, list[str]] = {file: [] for file in files}
    for file in files:
        parts = PurePath(file).parts
        ends[file] = ["/".join(parts[-number:]) for number in range(1, len(parts) + 1)]
    every = [end for found in ends.values() for end in found]
    return {file: next((end for end in found if every.count(end) == 1), file) for file, found in ends.items()}


def aligned(rows: Iterable[PageRow], width: int | None = None) -> list[str]:
    """The rows as lines. A source that does not fit into `width` stands below its value."""
    texts = [(row, value_text(row.value)) for row in rows]
    keys = max((len(row.key) for row, _ in texts), default=0)
    values = max((len(value) for _, value in texts if len(value) <= _WIDE), default=0)
    lines: list[str] = []
    for row, value in texts:
        beside = f"  {row.key.ljust(keys)} = {value.ljust(values)}  "
        if width and row.source and len(beside) + len(row.source) > width:
            lines += [beside.rstrip(), " " * (keys + 5) + paint(row.source, "dim")]
        else:
            lines.append((beside + paint(row.source, "dim") if row.source else beside).rstrip())
        if row.note:
            lines += [paint(part, "dim") for part in folded(clean(row.note), width, keys + 5)]
    return lines


def folded(text: str, width: int | None, indent: int = 2) -> list[str]:
    """The text, indented; where there is a width, on as many lines as it takes."""
    lead = " " * indent
    if width is None:
        return [lead + text]
    from textwrap import wrap

    return wrap(
        text,
        max(width - 1, indent + 20),
        initial_indent=lead,
        subsequent_indent=f"{lead}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def value_text(value: Any) -> str:
    """A value as it is written."""
    if isinstance(value, str):
        plain = value and value == value.strip() and "\n" not in value
        return clean(value) if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def labelled(values: Mapping[str, Any], sources: Mapping[str, Source]) -> list[PageRow]:
    """Values by their dotted paths, each with its whole source."""
    found = ((path, value, sources.get(path)) for path, value in values.items())
    return [PageRow(path, value, source.label() if source else "") for path, value, source in found]
