"""Profiles that are named after a step, `<target>_<step>`: each tried with its step's default configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nemo_runspec.catalog import STEPS, Recipe, find_recipes
from nemo_runspec.errors import Problems, UserError
from nemo_runspec.planning.guardrails import BrokenRule, findings, is_named_after, warning_of
from nemo_runspec.profiles.envfile import EnvFile
from nemo_runspec.profiles.profile import Profile

if TYPE_CHECKING:
    from nemo_runspec.planning.sweep_cache import Shared

_INPUT = "an-input"
"""Stands for the input that somebody will name."""


@dataclass(frozen=True)
class Fit:
    """How a profile and its step fit."""

    errors: tuple[UserError, ...] = ()
    warnings: tuple[str, ...] = ()


class Linked:
    """The steps there are, looked for once for all profiles of a file."""

    def __init__(self, env: EnvFile) -> None:
        self._env = env
        self._shared: Shared | None = None
        named = any("_" in name for name in env.profiles)
        self._steps = [recipe for recipe in find_recipes() if recipe.path.startswith(f"{STEPS}/")] if named else []

    def fit(self, profile: Profile) -> Fit:
        """What the rules say of a profile and the step that it is named after; nothing for any other profile.

        What else keeps a plan from being made is the profile's own, or the step's, and told elsewhere.
        """
        named = (step for step in self._steps if is_named_after(profile.name, step.path))
        step = max(named, key=lambda step: len(step.path), default=None)
        if step is None or step.problem():
            return Fit()
        try:
            return self._tried(step, profile)
        except UserError as error:
            broken = error.problems if isinstance(error, Problems) else (error,)
            return Fit(tuple(each for each in broken if isinstance(each, BrokenRule)))

    def _tried(self, step: Recipe, profile: Profile) -> Fit:
        from nemo_runspec.planning.build import build_plan  # brings OmegaConf
        from nemo_runspec.planning.planned import PlanRequest
        from nemo_runspec.planning.sweep_cache import Shared

        self._shared = self._shared or Shared()
        inputs = tuple(f"run.{item.name}={_INPUT}" for item in step.spec.consumes if item.required)
        plan = build_plan(PlanRequest(step, None, profile, self._env, overrides=inputs), self._shared).plan
        found = findings(plan, step.spec.gpus_per_node)
        return Fit((), tuple(warning_of(plan, each) for each in found))
