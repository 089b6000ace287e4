"""Colours for texts on a terminal. Only colour codes are added: what is copied from the screen is the text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nemo_runspec.errors import UserError

# Rich and GitHub names that people know, as the Pygments styles that come nearest.
_STYLES = {"github-light": "friendly", "ansi_light": "friendly", "ansi_dark": "native", "default": "monokai"}


def highlight(text: str, language: str) -> str:
    """The text with colour codes, in the style of `[cli] theme`; as it is in a language that nobody knows."""
    import pygments
    from pygments.formatters import Terminal256Formatter
    from pygments.lexers import get_lexer_by_name
    from pygments.styles import get_style_by_name
    from pygments.util import ClassNotFound

    theme = _theme()
    try:
        style = get_style_by_name(_STYLES.get(theme, theme))
    except ClassNotFound:
        style = get_style_by_name(_STYLES["default"])
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return text
    coloured: str = pygments.highlight(text, lexer, Terminal256Formatter(style=style))
    return coloured


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
        return "default"
    return str(env.system("cli").get("theme", "default")) if env else "default"
