"""Which executor a profile names. Apart from `profile.py`, because help and completion need no more than this."""

from __future__ import annotations

from nemo_runspec.backends import BUILTIN, DEFAULT_EXECUTOR, get_backend
from nemo_runspec.errors import UserError
from nemo_runspec.profiles.envfile import EnvFile


def executor_of(env: EnvFile, chain: tuple[str, ...]) -> str:
    """The executor a chain names; `local` by default.

    Raises:
        UserError: not a known executor.
    """
    for section in chain:
        if "executor" in env.sections[section]:
            named = env.sections[section]["executor"]
            if not isinstance(named, str):
                raise UserError(f"executor must be a string, not {named!r}", where=env.where(section, "executor"))
            if "${" in named:
                raise UserError(
                    "executor must be written out: it decides which keys a profile may have",
                    where=env.where(section, "executor"),
                    remedy="make one profile per executor, with a common parent",
                )
            if named not in BUILTIN:
                _require_plugin(env, section, named)
            return named
    return DEFAULT_EXECUTOR


def _require_plugin(env: EnvFile, section: str, executor: str) -> None:
    try:
        get_backend(executor)
    except UserError as error:
        raise UserError(error.what, where=env.where(section, "executor"), remedy=error.remedy) from None
