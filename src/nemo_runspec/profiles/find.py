"""Which `env.toml` is used: `NEMOTRON_ENV_FILE`, else the nearest `env.toml` up to the project root; and below it the
user's own, `$XDG_CONFIG_HOME/nemotron/env.toml`, else `~/.config/nemotron/env.toml`.
"""

from __future__ import annotations

import os
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.paths import expanded, user_home
from nemo_runspec.trust import check, searched

ENV_VARIABLE = "NEMOTRON_ENV_FILE"
DEFAULT_NAME = "env.toml"


def find_env_file(start: Path | None = None) -> Path | None:
    """The env file in force, or None where there is none.

    A relative `NEMOTRON_ENV_FILE` and the default name are looked for from `start` (the working directory) upwards;
    for where the search ends see `trust.searched`. What it finds by the default name is this user's own or trusted.

    Raises:
        UserError: `NEMOTRON_ENV_FILE` names a file that is not there; the file that was found is not obeyed.
    """
    start = start or Path.cwd()
    named = os.environ.get(ENV_VARIABLE, "").strip()
    if not named:
        nearest = next((f for folder in searched(start) if (f := folder / DEFAULT_NAME).is_file()), None)
        if nearest is not None:
            check(nearest, "env file")
        return nearest
    path = expanded(named)
    candidates = [path] if path.is_absolute() else [folder / path for folder in searched(start)]
    found = next((c for c in candidates if c.is_file()), None)
    if found is None:
        looked = "" if path.is_absolute() else f", looked for from {start} up to {candidates[-1].parent}"
        raise UserError(
            f"{ENV_VARIABLE} names a file that does not exist: {named}{looked}",
            where=f"environment variable {ENV_VARIABLE}",
            remedy=f"unset {ENV_VARIABLE} to use the nearest {DEFAULT_NAME}, or correct the path",
        )
    return found


def user_path() -> Path:
    """Where the user's own env file is, or would be. A relative `XDG_CONFIG_HOME` does not count."""
    named = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (named if named.is_absolute() else user_home() / ".config") / "nemotron" / DEFAULT_NAME


def find_user_file() -> Path | None:
    """The user's own env file, None where there is none.

    Raises:
        UserError: it is not obeyed, as somebody else may have written it.
    """
    path = user_path()
    if not path.is_file():
        return None
    check(path, "env file")
    return path
