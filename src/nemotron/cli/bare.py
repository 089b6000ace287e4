"""`--run` and `--batch` without a profile: `NEMOTRON_PROFILE` says which. By itself it submits nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence

from nemo_runspec.errors import UserError, did_you_mean
from nemotron.cli import complete
from nemotron.cli.arguments import is_override

VARIABLE = "NEMOTRON_PROFILE"

_OPTIONS = ("--run", "-r", "--batch", "-b")
_BUILT_IN = "local"


def with_profile(words: Sequence[str]) -> list[str]:
    """The words with a profile behind each `--run` and `--batch` that has none: nothing, an option or an override.

    An empty word is a profile's name that is missing, as of `--run "$UNSET"`, and stays.

    Raises:
        UserError: the variable is not set, or names no profile.
    """
    found: list[str] = []
    for number, word in enumerate(words):
        found.append(word)
        following = words[number + 1] if number + 1 < len(words) else None
        if word in _OPTIONS and (following is None or following.startswith("-") or is_override(following)):
            found.append(_profile(word, following))
    return found


def _profile(option: str, following: str | None) -> str:
    name = os.environ.get(VARIABLE, "").strip()
    if not name:
        seen = f", and what follows it is {following!r}" if following else ""
        raise UserError(
            f"{option} needs a value{seen}",
            remedy=f"{option} PROFILE; or export {VARIABLE}=PROFILE, which a bare {option} takes",
        )
    known = complete.profile_names()
    if known and name not in (*known, _BUILT_IN):
        raise UserError(
            f"{VARIABLE} names no profile: '{name}'",
            where=f"environment variable {VARIABLE}",
            remedy=did_you_mean(name, known) or f"profiles: {', '.join(known)}",
        )
    return name
