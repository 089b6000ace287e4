"""Lines that run a step, one for each executor: on a profile of the user's for that step, or on one to be written."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from nemo_runspec.backends import DEFAULT_EXECUTOR, known_executors
from nemo_runspec.catalog import STEPS, Recipe, recipe_at
from nemo_runspec.errors import UserError
from nemo_runspec.steps import step_id

_WRITER = f"{STEPS}/env/env_toml"
"""The step that writes profiles for all steps."""


@dataclass(frozen=True)
class Examples:
    """Lines to type.

    Args:
        missing: executors for which the user's env file has no profile of the step, and a step writes one.
    """

    lines: tuple[str, ...]
    missing: tuple[str, ...] = ()

    @property
    def writer(self) -> str:
        """The line that writes the profiles that are missing."""
        return f"nemotron steps run {_WRITER.removeprefix(f'{STEPS}/')} -c {'|'.join(self.missing)}"


def examples(recipe: Recipe) -> Examples:
    """A line for each executor that has a profile of the step, or gets one of the step that writes them."""
    own = _own_profiles(recipe)
    config = " -c tiny" if "tiny" in recipe.configs() else ""
    start = f"nemotron steps run {step_id(recipe)}{config}"
    writer = recipe_at(_WRITER)
    writes = writer.configs() if writer is not None and recipe.path != _WRITER else []
    lines, missing = [], []
    for executor in known_executors():
        if executor != DEFAULT_EXECUTOR and executor not in own and executor not in writes:
            continue
        profile = own.get(executor) or f"{executor}_{_suffix(recipe)}"
        if executor == DEFAULT_EXECUTOR and executor not in own:
            lines.append(start)
            continue
        lines.append(f"{start} -r {shlex.quote(profile)}")
        if executor not in own:
            missing.append(executor)
    return Examples(tuple(lines), tuple(missing))


def _suffix(recipe: Recipe) -> str:
    return step_id(recipe).replace("/", "_")


def _own_profiles(recipe: Recipe) -> dict[str, str]:
    """Executor → the first profile of the env file in force that is named after the step."""
    from nemo_runspec.profiles.executor import executor_of
    from nemo_runspec.profiles.load import env_file_in_force

    found: dict[str, str] = {}
    try:
        env = env_file_in_force()
    except UserError:
        return found
    for name in env.profiles if env else ():
        if not name.endswith(f"_{_suffix(recipe)}"):
            continue
        try:
            found.setdefault(executor_of(env, env.chain(name)) if env else "", name)
        except UserError:  # a broken profile is none to begin with
            continue
    return found
