"""From names to a `PlanRequest`: the recipe found, the profile loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from nemo_runspec.catalog import Recipe, check_obeyed, find_recipe, script_of_ones_own
from nemo_runspec.errors import UserError
from nemo_runspec.paths import working_directory
from nemo_runspec.planning.given import GivenVariable
from nemo_runspec.planning.planned import PlanRequest
from nemo_runspec.plans.labels import Labels
from nemo_runspec.plans.model import MODES
from nemo_runspec.profiles.envfile import EnvFile
from nemo_runspec.profiles.load import env_file_in_force, load_env_files, load_profile
from nemo_runspec.profiles.profile import Profile

_EXAMPLES = {"overrides": ["lr=0.1"], "args": ["--lr", "0.1"], "tags": ["lr-study"]}


def plan_request(
    recipe: str | Path | Recipe,
    *,
    config: str | Path | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    args: Sequence[str] = (),
    mode: str = "run",
    env_file: str | Path | None = None,
    labels: Labels | None = None,
    variables: Sequence[GivenVariable] = (),
) -> PlanRequest:
    """A request with everything looked up.

    Args:
        recipe: a recipe's path, or a script's path if it ends in `.py`.
        labels: what the job is called.
        variables: given with the call.

    Raises:
        UserError: unknown recipe or profile, or a problem of the profile; something else than what is asked for.
    """
    folder = working_directory()
    given = texts("overrides", overrides), texts("args", args)
    found = recipe if isinstance(recipe, Recipe) else _recipe(_text("recipe", recipe))
    chosen = None if config is None else _text("config", config)
    if mode not in MODES:
        raise UserError(f"there is no mode {mode!r}", remedy=f"one of {', '.join(MODES)}")
    path = Path(env_file) if env_file else None
    check_obeyed(found)
    loaded: Profile | None = None
    env: EnvFile | None
    if profile is not None:
        loaded, env = load_profile(_text("profile", profile), path)
    else:
        env = load_env_files(path) if path else env_file_in_force()
    return PlanRequest(
        found, chosen, loaded, env, mode, *given, folder=folder, labels=labels or Labels(), variables=tuple(variables)
    )


def bare_request(
    profile: str, *, overrides: Sequence[str] = (), mode: str = "run", env_file: str | Path | None = None
) -> PlanRequest:
    """A request for a profile alone, without a recipe: what an executor needs."""
    placeholder = Recipe(path="job", script=Path(__file__), root=Path(__file__).parent, own=True)
    return plan_request(placeholder, profile=profile, overrides=overrides, mode=mode, env_file=env_file)


def texts(name: str, values: object) -> tuple[str, ...]:
    """A list of texts, given as the argument of that name. Raises `UserError` for a text alone: it has letters."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        example = [values] if isinstance(values, str) else _EXAMPLES[name]
        raise UserError(f"{name} is a list of texts, not {values!r}", remedy=f"such as {name}={example!r}")
    return tuple(_text(f"each of {name}", each) for each in values)


def _recipe(name: str) -> Recipe:
    return script_of_ones_own(Path(name)) if name.endswith(".py") else find_recipe(name)


def _text(name: str, value: object) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise UserError(f"{name} is text, not {value!r}")
    return text
