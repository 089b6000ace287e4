"""`${plan:nodes}` in a configuration: what the job will have, whatever key of the profile asks for it.

`run.env.gpus_per_node` is one key of several: a resource shape, `gres` or the header may decide in its place, and a
program that is told the wrong number waits for GPUs that there are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.plans.model import Resources
from nemo_runspec.plans.target import Target
from nemo_runspec.profiles.layers import flatten
from nemo_runspec.source import Layer, Source

NAMES: Mapping[str, str] = {
    "nodes": "nodes of the job",
    "gpus_per_node": "GPUs of each of them",
    "gpus": "GPUs of all of them",
}
"""What may be asked for, in words."""

_ASKED = "${plan:"
_OF_THE_PLAN = "of the plan"


class PlanFacts:
    """What `${plan:NAME}` calls. Nothing of it is worked out before something asks."""

    def __init__(self) -> None:
        self._make: Callable[[], Mapping[str, int | None]] | None = None
        self._known: Mapping[str, int | None] | None = None

    def come_from(self, make: Callable[[], Mapping[str, int | None]]) -> None:
        """From now on they can be known; `make` is `facts_of` for the plan."""
        self._make = make

    def __call__(self, name: str) -> int:
        """The number.

        Raises:
            UserError: there is no such name, it is asked for by what it is made of, or nobody knows it.
        """
        if name not in NAMES:
            raise UserError(f"${{plan:{name}}}: no such word", remedy=did_you_mean(name, NAMES) or ", ".join(NAMES))
        if self._make is None:
            raise UserError(f"${{plan:{name}}} follows from run.env, which cannot refer to it")
        if self._known is None:
            self._known = self._make()
        value = self._known[name]
        if value is None:
            what = f"${{plan:{name}}}: nothing of the profile says how many GPUs a node has"
            raise UserError(what, remedy="run.env.gpus_per_node=8, or the number itself in its place")
        return value


def facts_of(resources: Resources, target: Target) -> dict[str, int | None]:
    """What `${plan:…}` stands for, by name; None for what nobody knows."""
    each = target.gpus_of_node(resources)
    return {"nodes": resources.nodes, "gpus_per_node": each, "gpus": target.gpus(resources)}


def told_of(written: Mapping[str, Any], sources: Mapping[str, Source]) -> dict[str, Source]:
    """The sources, in which a value that a file takes from the plan is the plan's, and says so.

    Args:
        written: the configuration with its interpolations.
    """
    asked = [path for path, value in flatten(written).items() if isinstance(value, str) and _ASKED in value]
    found = {path: sources[path] for path in asked if path in sources and sources[path].layer is Layer.YAML}
    return {**sources, **{path: replace(each, layer=Layer.AUTO, text=_OF_THE_PLAN) for path, each in found.items()}}
