"""A chain of steps with its inputs joined to what earlier steps have made, or to what one has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nemo_runspec.artifacts.graph import Graph
from nemo_runspec.runspec import ArtifactSpec


@dataclass(frozen=True)
class Supply:
    """Where one input of a step comes from.

    Args:
        name, type: the input, and the type it wants.
        required: whether the step needs it.
        given: the type of what it gets.
        step, output: the step that makes it, and the output's name; '' where one has it.
    """

    name: str
    type: str
    required: bool
    given: str
    step: str = ""
    output: str = ""


@dataclass(frozen=True)
class WiredStep:
    """One step of a chain, with where its inputs come from."""

    id: str
    inputs: tuple[Supply, ...]
    makes: tuple[str, ...]


def wired(graph: Graph, chain: Sequence[str], have: Sequence[str]) -> list[WiredStep]:
    """A chain with its inputs joined: each to the step before it that is nearest, else to what one has.

    An optional input is joined to what a step of the chain makes, or to what the chain begins with.
    """
    found = []
    for number, name in enumerate(chain):
        step = graph.steps[name]
        wires = [_wire(graph, item, name, chain[:number], have) for item in step.consumes]
        found.append(WiredStep(name, tuple(w for w in wires if w is not None), step.makes))
    return found


def _wire(graph: Graph, item: ArtifactSpec, name: str, before: Sequence[str], have: Sequence[str]) -> Supply | None:
    for step in reversed(before):
        outputs = [made for made, wanted in graph.links(step, name) if wanted == item.name]
        if outputs:
            given = next(made.type for made in graph.steps[step].produces if made.name == outputs[0])
            return Supply(item.name, item.type, item.required, given, step, outputs[0])
    own = have if item.required else have[:1]
    given = next((each for each in own if graph.types.accepts(item.type, each)), "")
    return Supply(item.name, item.type, item.required, given) if given else None
