"""The shortest chains of steps from what one has to what one wants: each step once, all its required inputs there.

A set of steps is looked for backwards from what is wanted, with ever more steps allowed; what a step needs at the
least (the longest way to it) cuts most of it off. The question is hard in general, so the search ends after so many
sets; what was found until then, or greedily, is given, and said not to be known as the shortest.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from nemo_runspec.artifacts.types import Types
from nemo_runspec.runspec import ArtifactSpec

VISITS = 3_000
"""How many sets of steps are looked at."""

Goal = tuple[str, bool]
"""A type that is needed, and whether it must come from what the chain begins with."""

_NEVER = float("inf")


@dataclass(frozen=True)
class Step:
    """What the graph knows of a step.

    Args:
        id: its identifier, `sft/automodel`.
        consumes, produces: its inputs and outputs, as its header has them.
    """

    id: str
    consumes: tuple[ArtifactSpec, ...] = ()
    produces: tuple[ArtifactSpec, ...] = ()

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """The types of its required inputs, each once."""
        return tuple(dict.fromkeys(item.type for item in self.consumes if item.required))

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The types of all its inputs, each once."""
        return tuple(dict.fromkeys(item.type for item in self.consumes))

    @cached_property
    def makes(self) -> tuple[str, ...]:
        """The types of its outputs, each once."""
        return tuple(dict.fromkeys(item.type for item in self.produces))


@dataclass(frozen=True)
class Chains:
    """What leads from some types to another.

    Args:
        have, want: what was asked.
        chains: the shortest, each as the identifiers of its steps in an order in which they can run; one empty chain
            where what one has is what one wants; none where nothing leads there.
        shortest: False where there may be shorter ones, or others as short.
        missing: where there is none, the types that are needed and nobody makes.
        visited: how many sets of steps were looked at.
    """

    have: tuple[str, ...]
    want: str
    chains: tuple[tuple[str, ...], ...] = ()
    shortest: bool = True
    missing: tuple[str, ...] = ()
    visited: int = 0


@dataclass
class ChainSearch:
    """One search.

    Args:
        steps: every step there is.
        makers: type → the steps whose output may be used for it.
        have: what there is; a chain begins with the first. Empty: with nothing.
    """

    steps: Mapping[str, Step]
    types: Types
    makers: Mapping[str, Sequence[str]]
    have: tuple[str, ...]
    want: str
    visited: int = 0
    _costs: dict[Goal, float] = field(default_factory=dict)
    _known_ways: dict[Goal, list[tuple[str, frozenset[Goal], float]]] = field(default_factory=dict)
    _seen: set[tuple[frozenset[str], frozenset[Goal], frozenset[Goal]]] = field(default_factory=set)

    def run(self) -> Chains:
        """The shortest chains."""
        if any(self.types.accepts(self.want, name) for name in self.have):
            return Chains(self.have, self.want, ((),))
        self._costs = self._lower_bounds()
        goal = (self.want, bool(self.have))
        least = self._cost(goal)
        if least == _NEVER:
            return Chains(self.have, self.want, missing=self._missing())
        for most in range(int(least), len(self.steps) + 1):
            self._seen.clear()
            found = {
                frozenset(chain): chain for chain in self._chains(frozenset(), frozenset([goal]), frozenset(), most)
            }
            if found or self.visited >= VISITS:
                break
        chains = sorted(found.values(), key=self._rank) or self._greedy(goal)
        return Chains(self.have, self.want, tuple(chains), self.visited < VISITS, visited=self.visited)

    # What a goal costs at the least ---------------------------------------------------------------------------------

    def _cost(self, goal: Goal) -> float:
        return self._costs.get(goal, _NEVER)

    def _lower_bounds(self) -> dict[Goal, float]:
        """Goal → the number of steps on the longest way to it that cannot be avoided (Dijkstra over and-nodes)."""
        plain = self._spread({name: 0.0 for name in self._given(self.have)}, {}, required=True)
        begun = self._spread({name: 0.0 for name in self._given(self.have[:1])}, plain, required=False)
        return {(n, False): c for n, c in plain.items()} | {(n, True): c for n, c in begun.items()}

    def _spread(self, costs: dict[str, float], beside: Mapping[str, float], *, required: bool) -> dict[str, float]:
        """Costs of all types.

        Args:
            costs: those that are known.
            beside: what required inputs cost that are not what the chain begins with.
            required: all required inputs are waited for; else any one input, with the others as `beside` has them.
        """
        readers: dict[str, list[Step]] = {}
        for step in self.steps.values():
            for name in step.needs if required else step.reads:
                readers.setdefault(name, []).append(step)
        left = {step.id: len(step.needs) if required else 1 for step in self.steps.values()}
        settled: set[str] = set()
        line = [(cost, name) for name, cost in costs.items()]
        if required:
            line += [(1.0, name) for step in self.steps.values() if not step.needs for name in self._made(step)]
        heapq.heapify(line)
        while line:
            cost, name = heapq.heappop(line)
            if name in settled:
                continue
            settled.add(name)
            costs[name] = cost
            for step in readers.get(name, ()):
                left[step.id] -= 1
                if left[step.id]:
                    continue
                others = 0.0 if required else max((beside.get(n, _NEVER) for n in step.needs if n != name), default=0.0)
                if others == _NEVER:
                    left[step.id] = 1  # another input may be the one
                    continue
                for made in self._made(step):
                    heapq.heappush(line, (1 + max(cost, others), made))
        return costs

    @cached_property
    def _there(self) -> frozenset[str]:
        """What one has may be used for."""
        return frozenset(self._given(self.have))

    @cached_property
    def _first(self) -> frozenset[str]:
        """What the chain begins with may be used for."""
        return frozenset(self._given(self.have[:1]))

    def _given(self, names: Iterable[str]) -> list[str]:
        """Types, and those that they may be used for."""
        return [each for name in names for each in (name, *self.types.ancestors(name))]

    def _made(self, step: Step) -> list[str]:
        return self._given(step.makes)

    # The search -----------------------------------------------------------------------------------------------------

    def _chains(
        self, chosen: frozenset[str], goals: frozenset[Goal], met: frozenset[Goal], most: int
    ) -> Iterator[tuple[str, ...]]:
        """Chains of at most so many steps, with all that are chosen, that reach all goals."""
        stack = [(chosen, goals, met)]
        while stack and self.visited < VISITS:
            state = stack.pop()
            if state in self._seen:
                continue
            self._seen.add(state)
            self.visited += 1
            chosen, goals, met = state
            if goals:
                stack += self._further(chosen, goals, met, most)
            elif (order := self.order(chosen)) is not None:
                yield order

    def _further(
        self, chosen: frozenset[str], goals: frozenset[Goal], met: frozenset[Goal], most: int
    ) -> Iterator[tuple[frozenset[str], frozenset[Goal], frozenset[Goal]]]:
        """What may be chosen for the goal that costs most."""
        goal = max(goals, key=lambda g: (self._cost(g), g))
        met = met | {goal}
        for name, wanted, cost in self._ways(goal):
            grown = chosen | {name}
            if len(grown) <= most and cost < most:
                rest = (goals | wanted) - met
                if len(grown) < most or all(self._is_made(grown, each) for each in rest):
                    yield grown, rest, met

    def _is_made(self, chosen: frozenset[str], goal: Goal) -> bool:
        return not chosen.isdisjoint(self.makers.get(goal[0], ()))

    def _ways(self, goal: Goal) -> list[tuple[str, frozenset[Goal], float]]:
        """The steps that make it, what each needs that there is not yet, and what that costs at the least.

        The cheapest is last: it is looked at first.
        """
        if goal not in self._known_ways:
            ways = [
                (name, wanted, max(map(self._cost, wanted), default=0.0))
                for name in self.makers.get(goal[0], ())
                for wanted in self._wanted(self.steps[name], begun=goal[1])
            ]
            self._known_ways[goal] = sorted((w for w in ways if w[2] < _NEVER), key=lambda w: (-w[2], w[0]))
        return self._known_ways[goal]

    def _wanted(self, step: Step, *, begun: bool) -> Iterator[frozenset[Goal]]:
        """What a step needs that there is not yet; of what the chain begins with, by any one input."""
        plain = frozenset((name, False) for name in step.needs if name not in self._there)
        if not begun:
            yield plain
            return
        if not self._first.isdisjoint(step.reads):
            yield plain
        else:
            yield from (plain - {(name, False)} | {(name, True)} for name in step.reads)

    def _greedy(self, goal: Goal) -> list[tuple[str, ...]]:
        """A chain of what costs least for each goal by itself, without the steps that it does not need."""
        chosen: dict[str, None] = {}
        line = [goal]
        for each in line:
            name, wanted, _ = min(self._ways(each), key=lambda w: (w[2], w[0] not in chosen, w[0]))
            chosen[name] = None
            line += [further for further in sorted(wanted) if further not in line]
        for name in chosen:
            if len(chosen) > 1 and self.order(fewer := {n: None for n in chosen if n != name}) is not None:
                chosen = fewer
        order = self.order(chosen)
        return [order] if order is not None else []

    # A set of steps as a chain --------------------------------------------------------------------------------------

    def order(self, chosen: Iterable[str]) -> tuple[str, ...] | None:
        """An order in which these steps can run, and what is wanted comes of what one has first; None where none is."""
        return self._ordered((), tuple(sorted(chosen)), self._there, self._first)

    def _ordered(
        self, done: tuple[str, ...], left: tuple[str, ...], plain: frozenset[str], begun: frozenset[str]
    ) -> tuple[str, ...] | None:
        if not left:
            return done if self.want in (begun if self.have else plain) else None
        ready = [name for name in left if plain.issuperset(self.steps[name].needs)]
        # What can come of the beginning now is run now, which loses nothing; of others each may be the next.
        coming = [name for name in ready if begun.intersection(self.steps[name].reads)]
        for name in coming[:1] or ready:
            made = frozenset(self._made(self.steps[name]))
            rest = tuple(other for other in left if other != name)
            found = self._ordered((*done, name), rest, plain | made, begun | made if coming else begun)
            if found is not None:
                return found
        return None

    def _rank(self, chain: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        """Chains that need no output that only some configurations make come first."""
        optional = sum(all(not made.required for made in self.steps[name].produces) for name in chain)
        return optional, chain

    # Why there is none ----------------------------------------------------------------------------------------------

    def _missing(self) -> tuple[str, ...]:
        """The types that what is wanted needs, however it is made, and that no step makes."""
        found: dict[str, None] = {}
        line, seen = [self.want], {self.want}
        for name in line:
            makers = self.makers.get(name, ())
            if not makers:
                found[name] = None
            for step in makers:
                further = [n for n in self.steps[step].needs if self._cost((n, False)) == _NEVER and n not in seen]
                seen.update(further)
                line += further
        return tuple(found)
