"""Text on a terminal: colour only where one is wanted, tables that fit it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from nemotron.cli.tables import Cell, Styled, laid_out

if TYPE_CHECKING:
    from datetime import datetime

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


def terminal_width() -> int | None:
    """Columns of the terminal, None where the output goes elsewhere and there is no such limit. COLUMNS is obeyed."""
    if os.environ.get("COLUMNS") or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


def table(rows: Iterable[Sequence[Cell]], *, indent: str = "  ") -> list[str]:
    """Rows in aligned columns, wrapped between words where the terminal has no room for them (`tables`)."""
    return [_painted(line) for lines in laid_out(rows, terminal_width(), len(indent)) for line in lines]


def _painted(line: Sequence[Cell]) -> str:
    return "".join(paint(cell.text, cell.style) if isinstance(cell, Styled) else cell for cell in line).rstrip()


def short_moment(moment: datetime) -> str:
    """A time in the terminal's own zone: today the minute, else the day, of another year the month."""
    local, today = moment.astimezone(), moment.now().astimezone()
    if local.date() == today.date():
        return local.strftime("%H:%M")
    return local.strftime("%b %d" if local.year == today.year else "%b %Y")
