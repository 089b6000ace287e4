"""A recipe's configurations as they are shipped: their values as they are written, and where each stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nemo_runspec.backends import DEFAULT_EXECUTOR
from nemo_runspec.catalog import Recipe
from nemo_runspec.config.compose import Composition
from nemo_runspec.planning.config_choice import choose_yaml
from nemo_runspec.profiles.layers import flatten
from nemo_runspec.source import Source

MANDATORY = "???"
"""What OmegaConf takes for a value that somebody else has to give."""


@dataclass(frozen=True)
class Shipped:
    """One of them.

    Args:
        values: dotted path → value, interpolations as they are written; `???` for one that has to be given.
        sources: dotted path → where it was written.
    """

    name: str
    values: Mapping[str, Any]
    sources: Mapping[str, Source]

    def place(self, path: str) -> str | None:
        """Where a value, or the nearest table above it, was written."""
        probe = path
        while probe and probe not in self.sources:
            probe = probe.rpartition(".")[0]
        return self.sources[probe].place() if probe else None

    def has(self, path: str) -> bool:
        """True if there is such a key, a table or the value of one."""
        return path in self.values or any(key.startswith(f"{path}.") for key in self.values)


def shipped(recipe: Recipe, name: str) -> Shipped:
    """The configuration of that name, composed of its files alone.

    Raises:
        UserError: there is none, or it cannot be composed.
    """
    composition = Composition(DEFAULT_EXECUTOR)
    composition.load_yaml(choose_yaml(recipe, name), ())
    return Shipped(name, flatten(composition.written()), dict(composition.sources))


def changes(one: Shipped, default: Shipped) -> dict[str, tuple[Any, Any]]:
    """Dotted path → (its value in the default, in the other), of every value that differs; None where it has none."""
    keys = dict.fromkeys((*one.values, *default.values))
    pairs = {key: (default.values.get(key), one.values.get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
