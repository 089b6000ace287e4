"""`steps plan` over 1,000 types and 10,000 steps: the graph made and a chain found, in one process.

    uv run --group dev python benchmarks/graph.py        # prints a table, exit code 1 where the aim is missed

The graphs are drawn at random, each with a seed of its own: three types of ten are others, a step has one to three
inputs, of which three of ten are optional, and one or two outputs. What it takes to read 10,000 headers is not in it.
"""

from __future__ import annotations

import random
import statistics
import sys
import time

from nemo_runspec.artifacts.chains import Chains, Step
from nemo_runspec.artifacts.graph import Graph
from nemo_runspec.artifacts.types import ArtifactType, Types
from nemo_runspec.runspec import ArtifactSpec

AIM = 1.0
"""Seconds of a processor."""

TYPES, STEPS, GRAPHS = 1_000, 10_000, 20


def ports(chance: random.Random, names: list[str], most: int, optional: float) -> tuple[ArtifactSpec, ...]:
    """Inputs or outputs."""
    chosen = chance.sample(names, chance.randint(1, most))
    return tuple(ArtifactSpec(f"p{i}", name, required=chance.random() >= optional) for i, name in enumerate(chosen))


def drawn(seed: int) -> tuple[list[Step], Types, str, str]:
    """Steps, types, and two of them."""
    chance = random.Random(seed)
    names = [f"type{i}" for i in range(TYPES)]
    parents = [(names[chance.randrange(i)],) if i and chance.random() < 0.3 else () for i in range(TYPES)]
    types = Types(ArtifactType(name, is_a=parent) for name, parent in zip(names, parents, strict=True))
    steps = [Step(f"s{i}", ports(chance, names, 3, 0.3), ports(chance, names, 2, 0.1)) for i in range(STEPS)]
    return steps, types, *chance.sample(names, 2)


def main() -> int:
    """Prints the table."""
    times: list[float] = []
    found: list[Chains] = []
    for seed in range(GRAPHS):
        steps, types, have, want = drawn(seed)
        begin = time.process_time()
        found.append(Graph(steps, types).chain([have], want))
        times.append(time.process_time() - begin)
    known = sum(chains.shortest for chains in found)
    print(f"| {GRAPHS} graphs of {TYPES:,} types and {STEPS:,} steps | |\n|---|--:|")
    print(f"| a plan, median | {statistics.median(times):.2f} s |\n| the longest | {max(times):.2f} s |")
    print(f"| known to be the shortest | {known} of {GRAPHS} |")
    print(f"| sets of steps looked at, most | {max(chains.visited for chains in found):,} |")
    return 0 if max(times) < AIM else 1


if __name__ == "__main__":
    sys.exit(main())
