"""The graph of steps and types: who makes what, which output goes into which input, the shortest chains between types.

Pure: steps and types go in, names come out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from nemo_runspec.artifacts.chains import Chains, ChainSearch, Step
from nemo_runspec.artifacts.types import Types
from nemo_runspec.catalog import STEPS, Recipe


def step_of(recipe: Recipe) -> Step:
    """A recipe as the graph has it. Raises `UserError` for a broken header."""
    return Step(recipe.path.removeprefix(f"{STEPS}/"), recipe.spec.consumes, recipe.spec.produces)


class Graph:
    """Steps, joined by the types that they read and make.

    Args:
        steps: every step once.
        types: what may be used for what.
    """

    def __init__(self, steps: Iterable[Step], types: Types) -> None:
        self.steps: Mapping[str, Step] = {step.id: step for step in steps}
        self.types = types

    def links(self, one: str, other: str) -> list[tuple[str, str]]:
        """What a step can hand to another: (name of the output, name of the input), the best first.

        An input takes an output of its own type before that of a subtype, a required input comes before an optional
        one, and so does a required output; then the header's order.
        """
        found = [
            ((self._distance(made.type, wanted.type), not wanted.required, not made.required), made.name, wanted.name)
            for made in self.steps[one].produces
            for wanted in self.steps[other].consumes
            if self.types.accepts(wanted.type, made.type)
        ]
        return [(made, wanted) for _, made, wanted in sorted(found, key=lambda f: f[0])]

    def producers(self, name: str) -> list[str]:
        """The steps that make what may be used for a type, sorted."""
        wanted = (name, *self.types.subtypes(name))
        return sorted({step for t in wanted for step in self._makers.get(t, ())})

    def consumers(self, name: str) -> list[str]:
        """The steps with an input that takes a type, sorted."""
        given = (name, *self.types.ancestors(name))
        return sorted({step for t in given for step in self._takers.get(t, ())})

    def chain(self, have: Iterable[str], want: str) -> Chains:
        """The shortest chains of steps from some types to another.

        All required inputs of each step are there when it runs; optional ones never need to be. A chain begins with the
        first type one has: what is wanted comes of that, through required or optional inputs.

        Args:
            have: what there is, what the chain is to begin with first. Empty: a chain may begin with nothing.

        Raises:
            UserError: a type that nobody declares; with a suggestion.
        """
        given = tuple(dict.fromkeys(have))
        for name in (*given, want):
            self.types.get(name)
        makers = {name: self.producers(name) for name in self._asked_for(want)}
        return ChainSearch(self.steps, self.types, makers, given, want).run()

    def between(self, have: Iterable[str], want: str | None) -> list[str]:
        """The steps that something comes to of these types (of any, for none) and leads from to the one that is wanted.

        Optional inputs count. Sorted.
        """
        down = {s for name in have for s in self.consumers(name)} if (have := tuple(have)) else set(self.steps)
        up = set(self.producers(want)) if want else set(self.steps)
        after = {name: self._after(name) for name in self.steps}
        before: dict[str, list[str]] = {name: [] for name in self.steps}
        for name, others in after.items():
            for other in others:
                before[other].append(name)
        return sorted(_spread(down, after) & _spread(up, before))

    def unreachable(self) -> list[str]:
        """The steps that can never run, as what they need is made of itself alone. Outside makes what nobody makes."""
        given = {name for step in self.steps.values() for name in step.needs if not self.producers(name)}
        left = dict(self.steps)
        while ready := [step for step in left.values() if given.issuperset(step.needs)]:
            for step in ready:
                del left[step.id]
                given.update(each for name in step.makes for each in (name, *self.types.ancestors(name)))
        return sorted(left)

    def cycles(self) -> list[list[str]]:
        """Steps that lead to each other, such as conversions there and back; each group sorted."""
        after = {name: self._after(name) for name in self.steps}
        before: dict[str, list[str]] = {name: [] for name in self.steps}
        for name, others in after.items():
            for other in others:
                before[other].append(name)
        groups, seen = [], set[str]()
        for name in reversed(_finished(after)):
            group = _reached(name, before, seen)
            if len(group) > 1:
                groups.append(sorted(group))
        return sorted(groups)

    def _after(self, name: str) -> list[str]:
        return [other for made in self.steps[name].makes for other in self.consumers(made) if other != name]

    def _asked_for(self, want: str) -> list[str]:
        """The types that may be needed on the way to one."""
        line, seen = [want], {want}
        for name in line:
            reads = (n for step in self.producers(name) for n in self.steps[step].reads)
            further = [n for n in dict.fromkeys(reads) if n not in seen]
            seen.update(further)
            line += further
        return line

    @cached_property
    def _makers(self) -> Mapping[str, list[str]]:
        return _by_type((step.id, made.type) for step in self.steps.values() for made in step.produces)

    @cached_property
    def _takers(self) -> Mapping[str, list[str]]:
        return _by_type((step.id, wanted.type) for step in self.steps.values() for wanted in step.consumes)

    def _distance(self, made: str, wanted: str) -> int:
        return 0 if made == wanted else 1 + self.types.ancestors(made).index(wanted)


def _by_type(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for step, name in pairs:
        found.setdefault(name, []).append(step)
    return found


def _finished(after: Mapping[str, Iterable[str]]) -> list[str]:
    """All nodes, each behind those that it leads to (Kosaraju's first pass), without recursion."""
    order: list[str] = []
    seen: set[str] = set()
    for start in after:
        stack = [(start, iter(after[start]))] if start not in seen else []
        seen.add(start)
        while stack:
            name, others = stack[-1]
            further = next((other for other in others if other not in seen), None)
            if further is None:
                order.append(name)
                stack.pop()
            else:
                seen.add(further)
                stack.append((further, iter(after[further])))
    return order


def _reached(start: str, arrows: Mapping[str, Iterable[str]], seen: set[str]) -> list[str]:
    """The nodes that arrows lead to from a node, without those that were seen."""
    line = [] if start in seen else [start]
    seen.add(start)
    for name in line:
        further = [other for other in dict.fromkeys(arrows[name]) if other not in seen]
        seen.update(further)
        line += further
    return line


def _spread(start: Iterable[str], arrows: Mapping[str, Iterable[str]]) -> set[str]:
    """These nodes, and all that arrows lead to from them."""
    seen: set[str] = set()
    for name in start:
        _reached(name, arrows, seen)
    return seen
