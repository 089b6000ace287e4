"""Colours for texts on a terminal. Only colour codes are added: what is copied from the screen is the text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from nemo_runspec.errors import UserError

# Rich and GitHub names that people know, as the Pygments styles that come nearest.
_STYLES = {"github-light": "friendly", "ansi_light": "friendly", "ansi_dark": "native"}

_OWN = "default"
"""The terminal's own colours, which its user has chosen for its background."""


def highlight(text: str, language: str) -> str:
    """The text with colour codes, in the style of `[cli] theme`; as it is in a language that nobody knows."""
    import pygments
    from pygments.formatters import Terminal256Formatter, TerminalFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.styles import get_style_by_name
    from pygments.util import ClassNotFound

    theme = _theme()
    try:
        formatter = Terminal256Formatter(style=get_style_by_name(_STYLES.get(theme, theme))) if theme != _OWN else None
    except ClassNotFound:
        formatter = None
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return text
    coloured: str = pygments.highlight(text, lexer, formatter or TerminalFormatter(colorscheme=_sixteen()))
    return coloured


def _sixteen() -> dict[Any, tuple[str, str]]:
    """Which of the terminal's colours is whose: for light and dark ones, as Pygments names them."""
    from pygments.token import Comment, Generic, Keyword, Name, Number, String, Token

    named = {
        Token: "", Comment: "brightblack", Keyword: "cyan", Name.Tag: "cyan", Name.Attribute: "cyan", String: "green",
        Number: "magenta", Generic.Deleted: "red", Generic.Inserted: "green",
    }  # fmt: skip
    return {kind: (name, name) for kind, name in named.items()}


def stand_out(text: str, words: Iterable[re.Pattern[str]]) -> str:
    """The text with these words in reverse."""
    for word in words:
        text = word.sub("\x1b[7m\\g<0>\x1b[27m", text)
    return text


def _theme() -> str:
    from nemo_runspec.profiles.load import env_file_in_force

    try:
        env = env_file_in_force()
    except UserError:
        return _OWN
    return str(env.system("cli").get("theme") or _OWN) if env else _OWN
