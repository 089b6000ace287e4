"""Variables that are given with a submission, `--env` and `--env-file`: laid over those of the profile."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.paths import expanded
from nemo_runspec.profiles.interpolate import escape
from nemo_runspec.source import Layer, Source, display_path

if TYPE_CHECKING:
    from nemo_runspec.config.compose import Composition

FROM_FILE = "env-file"
"""The origin of a secret that stands in such a file: `SecretRef.origin`; its detail is the file."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST = 1 << 20
"""Bytes of such a file."""


@dataclass(frozen=True, slots=True)
class GivenVariable:
    """One variable. `file`: where it stands, None for the command line."""

    name: str
    value: str = field(repr=False)
    source: Source
    file: str | None = None


def given_variables(words: Iterable[str] = (), files: Iterable[str] = ()) -> tuple[GivenVariable, ...]:
    """The variables in the order in which they count, the last one wins: the files', then the command line's.

    Args:
        words: `NAME=VALUE`, or `NAME` for the value that it has in this shell.

    Raises:
        UserError: a file that cannot be read, a line or word that is none, a variable that is not set here.
    """
    read = [variable for name in files for variable in variables_in(expanded(name))]
    return (*read, *map(_of_word, words))


def variables_in(path: Path) -> list[GivenVariable]:
    """The variables of a file: a `NAME=VALUE` a line, `#` for comments, quotes around a value left out.

    Raises:
        UserError: it cannot be read, or a line of it is no variable. What a line holds is not said: it may be a secret.
    """
    shown = display_path(path)
    try:
        with path.open("rb") as file:  # a pipe too: --env-file <(…)
            text = file.read(_MOST + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise UserError(f"--env-file: cannot read {shown}: {why}", where=shown) from None
    if len(text) > _MOST:
        raise UserError(f"--env-file: {shown} is larger than {_MOST >> 20} MiB", where=shown)
    lines = ((number, line.strip()) for number, line in enumerate(text_lines(text), 1))
    return [_of_line(line, path, number) for number, line in lines if line and not line.startswith("#")]


def lay_over(composition: Composition, variables: Sequence[GivenVariable]) -> None:
    """Puts the variables into `run.env.env_vars`, over what is there. Their text is taken as it is."""
    for variable in variables:
        composition.put(f"run.env.env_vars.{variable.name}", escape(variable.value), variable.source)


def files_of(variables: Sequence[GivenVariable]) -> dict[str, str]:
    """Variable → the file that it is of, for those that are."""
    return {variable.name: variable.file or "" for variable in variables}


def _of_word(word: str) -> GivenVariable:
    name, equals, value = word.partition("=")
    if not _NAME.fullmatch(name):
        raise UserError(f"--env: {name!r} is not the name of an environment variable", remedy="--env NAME=VALUE")
    if not equals:
        if name not in os.environ:
            raise UserError(f"--env {name}: there is no such variable here", remedy=f"export it, or --env {name}=VALUE")
        value = os.environ[name]
    return GivenVariable(name, value, Source(Layer.CLI, text=f"--env {word}"))


def _of_line(line: str, path: Path, number: int) -> GivenVariable:
    shown = display_path(path)
    name, equals, value = line.removeprefix("export ").lstrip().partition("=")
    if not equals or not _NAME.fullmatch(name.rstrip()):
        raise UserError("--env-file: this line is no NAME=VALUE", where=f"{shown}:{number}")
    return GivenVariable(
        name.rstrip(), _unquoted(value.strip()), Source(Layer.CLI, shown, number), str(path.absolute())
    )


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value
