"""Plain terminal text: colour only on a terminal, sizes and times in words, nothing wrapped."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

_CODES = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}
_UNITS = ("B", "kB", "MB", "GB", "TB")


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


def clean(text: str) -> str:
    """Text without characters that would drive the terminal; newlines and tabs stay."""
    return "".join(c if c in "\n\t" or c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def literal(text: str) -> str:
    """Help text in which Rich's markup finds nothing: `[tool.runspec]` stays as it is. As `rich.markup.escape` does."""
    return re.sub(r"(\\*)(\[[a-zA-Z#/@][^\[]*?\])", r"\1\1\\\2", text)


def size(count: int) -> str:
    """A number of bytes in decimal units: `812 B`, `23.1 kB`."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value /= 1000
        unit += 1
    return f"{value:.1f} {_UNITS[unit]}" if unit else f"{count} B"


def count(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def table(rows: Iterable[Sequence[str]], *, indent: str = "  ", dim_last: bool = False) -> list[str]:
    """Rows in aligned columns. The last column is not padded and nothing is cut."""
    rows = [list(row) for row in rows]
    if not rows:
        return []
    widths = [max((len(row[i]) for row in rows if i < len(row)), default=0) for i in range(max(map(len, rows)))]
    lines = []
    for row in rows:
        cells = [cell.ljust(widths[i]) for i, cell in enumerate(row[:-1])]
        last = paint(row[-1], "dim") if dim_last and row[-1] else row[-1]
        lines.append((indent + "  ".join([*cells, last])).rstrip())
    return lines
