"""Characters that drive a terminal or turn its text around: shown as what they are, refused where they would be sent.

C0 and C1 controls (ECMA-48) move the cursor and hide text; bidirectional controls (Unicode UAX #9) make a line read
otherwise than it runs ("Trojan Source", CVE-2021-42574).
"""

from __future__ import annotations

import re
from typing import Any

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_SENT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text with such characters as `\\u202e`, which JSON reads as the same character; newlines and tabs stay."""
    return _CONTROL.sub(_named, text)


def hidden_in(value: Any) -> str | None:
    """The first such character of a text, or of the texts in a list, by its name: `U+202E`; None for none."""
    if isinstance(value, (list, tuple)):
        return next((found for each in value if (found := hidden_in(each))), None)
    match = _SENT.search(value) if isinstance(value, str) else None
    return f"U+{ord(match.group()):04X}" if match else None


class VisibleStream:
    """A text stream on which what is printed cannot drive the terminal. Its bytes (`buffer`) pass as they are.

    Args:
        stream: what is written to.
        colour: whether colours may pass, which a stream that is no terminal has none of.

    Attributes:
        unfiltered: the stream itself, for what draws on a terminal.
    """

    def __init__(self, stream: Any, *, colour: bool) -> None:
        self.unfiltered = stream
        self._colour = colour

    def write(self, text: str) -> int:
        """Writes text; how many characters of it were taken: all."""
        if _CONTROL.search(text):
            parts = [visible(part) for part in _COLOUR.split(text)]
            colours = _COLOUR.findall(text) if self._colour else [visible(code) for code in _COLOUR.findall(text)]
            self.unfiltered.write("".join(map("".join, zip(parts, [*colours, ""], strict=True))))
        else:
            self.unfiltered.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Writes each."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


def unfiltered(stream: Any) -> Any:
    """The stream below a `VisibleStream`, or the stream."""
    return getattr(stream, "unfiltered", stream)


def _named(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"
