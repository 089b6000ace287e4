"""Words of a command line that a recipe's command does not take, and what was probably meant by each."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from nemo_runspec.errors import UserError
from nemo_runspec.source import COMMAND_LINE
from nemotron.cli import complete

_KINDS = (
    "overrides are key=value; a profile is named with --run NAME, a config with -c NAME; "
    "arguments for the script itself come after --"
)


def check_overrides(texts: Sequence[str], configs: Callable[[], Sequence[str]]) -> None:
    """Refuses the first word that is neither an option nor an override.

    Args:
        configs: the recipe's configs; called only where a word is wrong.

    Raises:
        UserError: with what was probably meant by it.
    """
    for number, text in enumerate(texts):
        if not is_override(text):
            remedy = _split_by_shell(texts[: number + 1]) or _meant_as_option(text, configs()) or _KINDS
            raise UserError(f"'{text}' is neither an option nor an override", where=COMMAND_LINE, remedy=remedy)


def is_override(text: str) -> bool:
    """True if a word is meant as an override: `key=value`, `+key=value`, `~key`."""
    return ("=" in text and not text.startswith("=")) or text.startswith("~")


def _split_by_shell(texts: Sequence[str]) -> str:
    """The override that a shell has taken apart at its spaces, in quotes; '' where it is none."""
    from nemo_runspec.config.overrides import is_open

    begin = next((n for n in range(len(texts) - 2, -1, -1) if is_override(texts[n])), None)
    if begin is None or not is_open(texts[begin].partition("=")[2]):
        return ""
    return f"a value with spaces is one word in quotes: {shlex.quote(' '.join(texts[begin:]))}"


def _meant_as_option(text: str, configs: Sequence[str]) -> str:
    """A config or a profile of that name, as it is named; '' where there is none."""
    for option, names in (("-c", configs), ("--run", complete.profile_names())):
        if text in names:
            return f"did you mean {option} {text}?"
    return ""
