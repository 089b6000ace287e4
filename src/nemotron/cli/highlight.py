"""Colours for scripts on a terminal. Only colour codes are added: what is copied from the screen is the script."""

from __future__ import annotations

from nemo_runspec.errors import UserError

# Rich and GitHub names that people know, as the Pygments styles that come nearest.
_STYLES = {"github-light": "friendly", "ansi_light": "friendly", "ansi_dark": "native", "default": "monokai"}


def highlight_bash(script: str) -> str:
    """The script with colour codes, in the style of `[cli] theme`."""
    from pygments import highlight
    from pygments.formatters import Terminal256Formatter
    from pygments.lexers.shell import BashLexer
    from pygments.styles import get_style_by_name
    from pygments.util import ClassNotFound

    theme = _theme()
    try:
        style = get_style_by_name(_STYLES.get(theme, theme))
    except ClassNotFound:
        style = get_style_by_name(_STYLES["default"])
    coloured: str = highlight(script, BashLexer(stripnl=False, ensurenl=False), Terminal256Formatter(style=style))
    return coloured


def _theme() -> str:
    from nemo_runspec.profiles.load import env_file_in_force

    try:
        env = env_file_in_force()
    except UserError:
        return "default"
    return str(env.system("cli").get("theme", "default")) if env else "default"
