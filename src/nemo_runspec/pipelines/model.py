"""A pipeline: its stages, and what each of them takes from which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nemo_runspec.catalog import Recipe
from nemo_runspec.source import Source


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a pipeline.

    Args:
        id: what it is called in this pipeline; its step's identifier where nothing else was said.
        config, profile: as on the command line; None for the recipe's default, and for this machine.
        overrides: Hydra overrides, those of the command line last.
        own: those for it alone.
        places: where those
            stand that are a file's.
        inputs: input → `STAGE` or `STAGE.OUTPUT` that it is taken from, where that was written down.
        where: the file and line it stands in, None for the command line.
    """

    id: str
    recipe: Recipe
    config: str | None = None
    profile: str | None = None
    overrides: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    places: Mapping[str, Source] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Handover:
    """An input of a stage that an earlier stage makes. `maker`: that one's place, from 0; `output`: its output."""

    input: str
    maker: int
    output: str


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Stages in the order in which they run.

    Args:
        name: what its runs are called, and what one is recognised by when it is run again.
        handovers: for each stage, what it takes from earlier ones.
    """

    name: str
    stages: tuple[Stage, ...]
    handovers: tuple[tuple[Handover, ...], ...]

    def read_of(self, index: int) -> frozenset[str]:
        """The outputs of a stage that later ones take."""
        return frozenset(each.output for handovers in self.handovers for each in handovers if each.maker == index)
