"""Text for people: counts and sizes in words, one line of anything. No colour: that is the terminal's."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB")


def clean(text: str) -> str:
    """Text without characters that would drive the terminal; newlines and tabs stay."""
    return "".join(c if c in "\n\t" or c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def one_line(text: str) -> str:
    """The text without line breaks and without what would drive the terminal."""
    return clean(" ".join(text.split()))


def display_width(text: str) -> int:
    """Columns of a terminal that a text takes: two for each wide character of East Asia, none for a combining one."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def fitting(text: str, columns: int) -> str:
    """As much of a text as goes into so many columns."""
    if text.isascii():
        return text[: max(0, columns)]
    used = 0
    for number, character in enumerate(text):
        used += display_width(character)
        if used > columns:
            return text[:number]
    return text


def shorten(text: str, longest: int) -> str:
    """The text, cut to so many characters with an ellipsis for the last one."""
    return text if len(text) <= longest else f"{text[: max(0, longest - 1)].rstrip()}…"


def keep_end(text: str, longest: int) -> str:
    """The text, cut to so many characters with an ellipsis for the first one: a path's end tells more."""
    return text if len(text) <= longest else f"…{text[len(text) - longest + 1 :]}"


def first_words(text: str, longest: int) -> str:
    """The text, cut between words to so many characters with an ellipsis; a word that is too long by itself is cut."""
    if len(text) <= longest:
        return text
    head, space, _ = text[: max(0, longest - 1)].rpartition(" ")
    return f"{head.rstrip()} …" if space and head.strip() else shorten(text, longest)


def size(count: float) -> str:
    """A number of bytes in decimal units: `812 B`, `23.1 kB`."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value /= 1000
        unit += 1
    return f"{value:.1f} {_UNITS[unit]}" if unit else f"{value:.0f} B"


def size_of(part: float, whole: float) -> str:
    """How many bytes of how many, in the unit of all of them: `12.1 of 340.0 MB`."""
    number, unit = size(whole).split()
    step = 1000 ** _UNITS.index(unit)
    return f"{part / step:.{1 if '.' in number else 0}f} of {number} {unit}"


def count(number: int, noun: str, nouns: str = "") -> str:
    """`1 file`, `2 files`. `nouns`: where several are not called so with an s."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"
