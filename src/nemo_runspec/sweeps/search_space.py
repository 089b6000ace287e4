"""Checks what a sweeper may choose against the recipe's parameters, before the first run is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from nemo_runspec.catalog import Recipe
from nemo_runspec.config.overrides import parse_override
from nemo_runspec.errors import UserError
from nemo_runspec.planning.parameters import wrong_with
from nemo_runspec.profiles.profile import one_or_all
from nemo_runspec.source import COMMAND_LINE

_MOST = 10_000
"""Values of one key that are looked at."""


def check_space(recipe: Recipe, space: Mapping[str, str]) -> None:
    """Raises `UserError` for each parameter of which a value might be chosen that it may not have.

    Args:
        space: key → what is chosen from, as Hydra writes it.
    """
    parameters = {parameter.name: parameter for parameter in recipe.spec.parameters}
    problems = []
    for typed, text in space.items():
        key = typed.lstrip("+")
        if key not in parameters:
            continue
        wrong = (wrong_with(parameters[key], value) for value in islice(_values(key, text), _MOST))
        first = next(filter(None, wrong), None)
        if first is not None:
            what = f"{key} {first.what}, which {text} may choose"
            problems.append(UserError(what, where=COMMAND_LINE, remedy=first.remedy or None))
    if problems:
        raise one_or_all(f"{recipe.path} has", problems)


def _values(key: str, text: str) -> Iterator[Any]:
    """What may be chosen, of an interval its ends."""
    from hydra.core.override_parser.types import IntervalSweep

    override = parse_override(f"{key}={text}")
    if not override.is_sweep_override():
        yield override.value()
        return
    sweep = override.value()
    if isinstance(sweep, IntervalSweep):
        yield from (sweep.start, sweep.end)
    else:
        yield from (parse_override(f"{key}={each}").value() for each in override.sweep_string_iterator())
