"""Checks a composed configuration against what the recipe's header says of its values, before anything is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nemo_runspec.config.compose import NoValue
from nemo_runspec.errors import Problems, UserError, did_you_mean
from nemo_runspec.profiles.profile import one_or_all
from nemo_runspec.runspec import Parameter
from nemo_runspec.runspec_keys import PARAMETER_TYPES, TYPE_WORDS, in_words, is_of
from nemo_runspec.secret_names import holds_secret
from nemo_runspec.secrets import of_environment
from nemo_runspec.source import display_path
from nemo_runspec.text import count

if TYPE_CHECKING:
    from nemo_runspec.catalog import Recipe
    from nemo_runspec.config.compose import Composition
    from nemo_runspec.planning.planned import Planned


@dataclass(frozen=True)
class Wrong:
    """What is wrong with a value, behind its key: `must be …`; and how to mend it."""

    what: str
    remedy: str = ""


def wrong_with(parameter: Parameter, value: Any) -> Wrong | None:
    """What a value that is there is not, and should be; None where it is right."""
    found = _of_another_type(parameter, value) or _no_choice(parameter, value) or _out_of_range(parameter, value)
    if found is None or not _may_be_secret(parameter, value):
        return found
    return Wrong(f"must be {parameter.allowed or 'another value'}; its value may be a secret, and is not shown")


def _may_be_secret(parameter: Parameter, value: Any) -> bool:
    if holds_secret(parameter.name.rpartition(".")[2], value):
        return True
    return isinstance(value, str) and any(secret in value for secret in of_environment().values())


def _of_another_type(parameter: Parameter, value: Any) -> Wrong | None:
    if parameter.type is None or is_of(value, PARAMETER_TYPES[parameter.type]):
        return None
    is_number = parameter.type == "str" and isinstance(value, (int, float))
    quotes = f"in quotes it is text: {parameter.name}=\"'{value}'\"" if is_number else ""
    return Wrong(f"must be {TYPE_WORDS[parameter.type]}, not {_shown(value)}", quotes)


def _no_choice(parameter: Parameter, value: Any) -> Wrong | None:
    if not parameter.choices or any(_same(value, each) for each in parameter.choices):
        return None
    near = did_you_mean(str(value), map(str, parameter.choices)) if isinstance(value, str) else None
    return Wrong(f"must be one of {', '.join(map(in_words, parameter.choices))}, not {_shown(value)}", near or "")


def _out_of_range(parameter: Parameter, value: Any) -> Wrong | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        limited = parameter.min is not None or parameter.max is not None
        return Wrong(f"must be a number, not {_shown(value)}") if limited else None
    below = parameter.min is not None and value < parameter.min
    above = parameter.max is not None and value > parameter.max
    return Wrong(f"must be {parameter.range}, not {value}") if below or above or value != value else None


class _Incomplete(UserError):
    """Required parameters have no value: nothing more can be found out without them."""


def check_parameters(recipe: Recipe, composition: Composition, problems: list[UserError]) -> None:
    """Adds what is wrong with the values to the problems, which `reported_together` tells.

    Raises:
        UserError: required ones have no value.
    """
    missing, wrong = _looked_at(recipe, composition, (None, NoValue.ABSENT, NoValue.MANDATORY))
    problems += [*missing, *wrong]
    if missing:
        raise _Incomplete(missing[0].what)


def _looked_at(
    recipe: Recipe, composition: Composition, lacking: tuple[NoValue | None, ...]
) -> tuple[list[UserError], list[UserError]]:
    """Required parameters that lack a value, and those whose value is wrong."""
    missing, wrong = [], []
    for number, parameter in enumerate(recipe.spec.parameters):
        value = composition.found(parameter.name)
        if value is None or isinstance(value, NoValue):
            if parameter.required and value in lacking:
                missing.append(_missing(recipe, number, parameter, composition))
        elif found := wrong_with(parameter, value):
            wrong.append(_placed(recipe, number, parameter, composition, found))
    return missing, wrong


def _missing(recipe: Recipe, number: int, parameter: Parameter, composition: Composition) -> UserError:
    values = "|".join(map(in_words, parameter.choices)) or "…"
    return UserError(
        f"{parameter.name} has no value, and the recipe needs one: {parameter.description}",
        where=composition.place(parameter.name) or _declared(recipe, "parameters", number),
        remedy=f"give one: {parameter.name}={values}",
    )


def _placed(recipe: Recipe, number: int, parameter: Parameter, composition: Composition, wrong: Wrong) -> UserError:
    remedy = f"{wrong.remedy}; " if wrong.remedy else ""
    return UserError(
        f"{parameter.name} {wrong.what}",
        where=composition.place(parameter.name),
        remedy=f"{remedy}see {_declared(recipe, 'parameters', number)}",
    )


@contextmanager
def reported_together(recipe: Recipe, composition: Composition, problems: list[UserError]) -> Iterator[None]:
    """Afterwards these problems are raised, where there are some by then; with what else was raised meanwhile."""
    try:
        yield
    except _Incomplete:
        raise _together(recipe, problems) from None
    except UserError as error:
        known = problems or _known_early(recipe, composition)
        if not known:
            raise
        more = error.problems if isinstance(error, Problems) else (error,)
        raise _together(recipe, [*known, *more]) from None
    if problems:
        raise _together(recipe, problems)


def _known_early(recipe: Recipe, composition: Composition) -> list[UserError]:
    """What can be said of the values before all of the configuration is there: null may be one that is put in later."""
    if not composition.has_overrides:
        return []
    missing, wrong = _looked_at(recipe, composition, (NoValue.MANDATORY,))
    return [*missing, *wrong]


def with_models_checked(recipe: Recipe, composition: Composition, planned: Planned) -> Planned:
    """The plan, with a warning where nobody knows whether it has the GPUs that the chosen models need.

    Raises:
        UserError: it has fewer.
    """
    target, found, warnings = planned.plan.target, [], list(planned.plan.warnings)
    gpus = target.gpus(planned.plan.resources)
    for number, model in enumerate(recipe.spec.models):
        if not model.min_gpus or composition.found(model.parameter) != model.name:
            continue
        if gpus is None:
            warnings.append(f"{model.name} needs {count(model.min_gpus, 'GPU')}; how many the job has is not known")
        elif gpus < model.min_gpus:
            found.append(_too_few(recipe, number, composition, f"run.env.{target.gpus_key}", gpus))
    if found:
        raise _together(recipe, found)
    return replace(planned, plan=replace(planned.plan, warnings=tuple(warnings)))


def _too_few(recipe: Recipe, number: int, composition: Composition, key: str, gpus: int) -> UserError:
    model = recipe.spec.models[number]
    return UserError(
        f"{model.name} needs {count(model.min_gpus, 'GPU')} or more, and the job has {gpus or 'none'}",
        where=composition.place(model.parameter),
        remedy=f"ask for more, such as {key}={model.min_gpus}, or choose another {model.parameter} "
        f"(see {_declared(recipe, 'models', number)})",
    )


def _together(recipe: Recipe, problems: list[UserError]) -> UserError:
    return one_or_all(f"{recipe.path} has", problems)


def _declared(recipe: Recipe, table: str, number: int) -> str:
    line = recipe.spec.lines.get(f"tool.runspec.{table}.{number}.name")
    return f"{display_path(recipe.script)}:{line}" if line else display_path(recipe.script)


def _same(value: Any, choice: Any) -> bool:
    return bool(value == choice) and isinstance(value, bool) is isinstance(choice, bool)


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "a list"
    return "a table" if isinstance(value, dict) else repr(value) if isinstance(value, str) else in_words(value)
