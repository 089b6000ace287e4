"""From names to a `PlanRequest`: the recipe found, the profile loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nemo_runspec.catalog import Recipe, check_obeyed, find_recipe, script_of_ones_own
from nemo_runspec.planning.planned import PlanRequest
from nemo_runspec.profiles.envfile import EnvFile, load_env_file
from nemo_runspec.profiles.load import env_file_in_force, load_profile
from nemo_runspec.profiles.profile import Profile


def plan_request(
    recipe: str | Recipe,
    *,
    config: str | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    args: Sequence[str] = (),
    mode: str = "run",
    env_file: str | Path | None = None,
) -> PlanRequest:
    """A request with everything looked up.

    Args:
        recipe: a recipe's path, or a script's path if it ends in `.py`.

    Raises:
        UserError: unknown recipe or profile, or a problem of the profile.
    """
    found = recipe if isinstance(recipe, Recipe) else _recipe(recipe)
    path = Path(env_file) if env_file else None
    check_obeyed(found)
    loaded: Profile | None = None
    env: EnvFile | None
    if profile is not None:
        loaded, env = load_profile(profile, path)
    else:
        env = load_env_file(path) if path else env_file_in_force()
    return PlanRequest(found, config, loaded, env, mode, tuple(overrides), tuple(args))


def bare_request(
    profile: str, *, overrides: Sequence[str] = (), mode: str = "run", env_file: str | Path | None = None
) -> PlanRequest:
    """A request for a profile alone, without a recipe: what an executor needs."""
    placeholder = Recipe(path="job", script=Path(__file__), root=Path(__file__).parent, own=True)
    return plan_request(placeholder, profile=profile, overrides=overrides, mode=mode, env_file=env_file)


def _recipe(name: str) -> Recipe:
    return script_of_ones_own(Path(name)) if name.endswith(".py") else find_recipe(name)
