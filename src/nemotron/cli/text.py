"""Text on a terminal: colour only where one is wanted, nothing wrapped."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from nemo_runspec.text import columns

_CODES = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}


def colour_wanted(stream: TextIO) -> bool:
    """True for a terminal, unless NO_COLOR is set or TERM is dumb; FORCE_COLOR wins over what the stream is."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text in a style, on streams that want colour."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colour_wanted(stream or sys.stdout) else text


def literal(text: str) -> str:
    """Help text in which Rich's markup finds nothing: `[tool.runspec]` stays as it is. As `rich.markup.escape` does."""
    return re.sub(r"(\\*)(\[[a-zA-Z#/@][^\[]*?\])", r"\1\1\\\2", text)


def table(rows: Iterable[Sequence[str]], *, indent: str = "  ", dim_last: bool = False) -> list[str]:
    """Rows in aligned columns, as `nemo_runspec.text.columns`. `dim_last`: the last column in a fainter colour."""
    rows = [list(row) for row in rows]
    lines = columns(rows, indent=indent)
    if not dim_last:
        return lines
    return [_dim_end(line, row[-1].rstrip()) for line, row in zip(lines, rows, strict=True)]


def _dim_end(line: str, end: str) -> str:
    return line.removesuffix(end) + paint(end, "dim") if end else line
