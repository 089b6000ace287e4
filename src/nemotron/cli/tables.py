"""Tables as wide as the terminal: no word is broken that has room on a line of its own, and no line is too long.

Where the output goes elsewhere there is no such limit, and each row is one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nemo_runspec.text import display_width, fitting

_GAP = 2
_HANG = 4
"""How much deeper than the table a word stands that is too long for its column and all that is right of it."""

_WORDS = re.compile(r"(\s*)((?:\d[\d.,]{0,6} (?=[A-Za-z%]{1,3}(?:\s|$)))?\S+)")
"""With the space before each. A number and its unit are one: `28.7 kB`."""

_SHARE = 3
"""A word longer than this part of the table does not make its column wider: it stands across those beside it."""


class Styled(NamedTuple):
    """A cell in a style of `text.paint`."""

    text: str
    style: str


Cell = str | Styled


def text_of(cell: Cell) -> str:
    """What a cell says."""
    return cell.text if isinstance(cell, Styled) else cell


def wrapped(text: str, room: int) -> list[str]:
    """The text in lines of at most so many columns; a word that is longer goes on in the next line."""
    return [line for part in text.split("\n") for line in _wrapped(part, max(1, room))]


def _wrapped(text: str, room: int) -> list[str]:
    if display_width(text) <= room:
        return [text.rstrip()]
    lines, line = [], ""
    for gap, word in _WORDS.findall(text):
        if line and display_width(line + gap + word) > room:
            lines.append(line)
            line = ""
        line += (gap if line else "") + word
        while display_width(line) > room:
            lines.append(fitting(line, room) or line[0])
            line = line[len(lines[-1]) :]
    return [*lines, line] if line else lines


def laid_out(rows: Iterable[Sequence[Cell]], width: int | None, indent: int = 2) -> list[list[list[Cell]]]:
    """The lines of each row. A line is its pieces from left to right; plain ones between them are spaces.

    Args:
        width: columns that there are; None for as many as it takes, and one line for each row.
    """
    table = [list(row) for row in rows]
    if not table:
        return []
    widths = _widths(table, None if width is None else max(1, width - indent))
    starts = [indent + sum(widths[:number]) + _GAP * number for number in range(len(widths))]
    return [_TableRow(starts, widths, width, indent).lines(row) for row in table]


def table_width(rows: Sequence[Sequence[str]]) -> int:
    """Columns of a terminal that a table takes with every row on one line."""
    widths = (max(display_width(row[number]) for row in rows) for number in range(len(rows[0])))
    return sum(widths) + _GAP * (len(rows[0]) - 1)


def has_room(rows: Sequence[Sequence[Cell]], width: int | None) -> bool:
    """True if every word has room in its column; names, which stand first, as a whole."""
    if width is None:
        return True
    columns = [[text_of(row[number]) for row in rows] for number in range(len(rows[0]))]
    least = [max(map(_widest, columns[0])), *(max(map(_longest_word, column)) for column in columns[1:])]
    return sum(least) + _GAP * (len(least) - 1) <= width


def _widths(table: Sequence[Sequence[Cell]], room: int | None) -> list[int]:
    """How wide each column is: what it takes or, where there is no room for that, a fair share."""
    count = max(map(len, table))
    columns = [[text_of(row[number]) for row in table if number < len(row)] for number in range(count)]
    wanted = [max((_widest(text) for text in column), default=0) for column in columns]
    if room is None or sum(wanted) + _GAP * (count - 1) <= room:
        return wanted
    left = max(count, room - _GAP * (count - 1))
    words = [max((_longest_word(text) for text in column), default=0) for column in columns]
    words[0] = wanted[0]  # names are not wrapped
    floors = (
        words if sum(words) <= left else [min(words[0], left // 2), *(min(each, left // _SHARE) for each in words[1:])]
    )
    if sum(floors) > left:
        return _shared([0] * count, floors, left)
    return _shared(floors, [min(most, left) for most in wanted], left)


def _shared(floors: Sequence[int], wanted: Sequence[int], room: int) -> list[int]:
    """Widths between the least and the wanted ones: whoever wants little has it, the others have as much as another."""
    for level in range(max(wanted), 0, -1):
        widths = [max(least, min(most, level)) for least, most in zip(floors, wanted, strict=True)]
        if sum(widths) <= room:
            return widths
    return [max(1, least) for least in floors]


def _widest(text: str) -> int:
    return max(map(display_width, text.split("\n")))


def _longest_word(text: str) -> int:
    return max((display_width(word) for _, word in _WORDS.findall(text)), default=0)


@dataclass
class _TableRow:
    """A row on its way onto lines: cells side by side in bands; what a cell is too long for begins another band."""

    starts: Sequence[int]
    widths: Sequence[int]
    width: int | None
    indent: int
    _done: list[list[Cell]] = field(default_factory=list)
    _band: list[tuple[int, list[str], str]] = field(default_factory=list)

    def lines(self, row: Sequence[Cell]) -> list[list[Cell]]:
        """Its lines."""
        for number, cell in enumerate(row):
            text, style = text_of(cell).rstrip("\n"), cell.style if isinstance(cell, Styled) else ""
            if not text:
                continue
            if self._fits(number, text):
                self._place(self.starts[number], self.widths[number], text, style)
            else:
                self._spill(number, text, style)
        self._close()
        return self._done or [[]]

    def _fits(self, number: int, text: str) -> bool:
        if self.width is None:
            return True
        if self.starts[number] + self.widths[number] > self.width:
            return False
        return (_widest(text) if number == 0 else _longest_word(text)) <= self.widths[number]

    def _place(self, start: int, room: int, text: str, style: str) -> None:
        self._band.append((start, text.split("\n") if self.width is None else wrapped(text, room), style))

    def _spill(self, number: int, text: str, style: str) -> None:
        """A word is longer than the column: the cell has all that is right of it or, if need be, lines of its own."""
        assert self.width is not None, "without an end there is room"
        start = self.starts[number]
        if start + _longest_word(text) > self.width:
            self._close()
            start = self.indent if number == 0 else min(self.indent + _HANG, start)
        start = min(start, max(0, self.width - _HANG))
        self._place(start, self.width - start, text, style)
        self._close()

    def _close(self) -> None:
        """Writes the band's lines."""
        for number in range(max((len(texts) for _, texts, _ in self._band), default=0)):
            line: list[Cell] = []
            taken = 0
            for start, texts, style in self._band:
                if number < len(texts) and texts[number]:
                    line += [" " * (start - taken), Styled(texts[number], style) if style else texts[number]]
                    taken = start + display_width(texts[number])
            self._done.append(line)
        self._band = []
