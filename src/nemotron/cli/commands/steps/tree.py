"""The graph of steps and types as a tree of lines: what each type is read by, and what that makes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nemo_runspec.artifacts.graph import Graph

NOTHING = "(nothing)"
"""Where steps begin that need no input."""
_UNBROKEN = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Branch:
    """A line of the tree: a type, or a step with the type that it makes.

    Args:
        step: '' for a type that another one may be used for.
        also: what the step needs besides.
        made: the type that stands at the line's end; '' for a step that makes nothing.
        seen: what becomes of that type is shown elsewhere.
    """

    step: str
    made: str
    also: tuple[str, ...] = ()
    seen: bool = False

    @property
    def text(self) -> str:
        """The line without its branches."""
        more = " …" if self.seen else ""
        if not self.step:
            return f"= {self.made}{more}"
        also = f" + {', '.join(self.also)}" if self.also else ""
        return f"{self.step}{also} → {self.made}{more}" if self.made else f"{self.step}{also}"


def draw(graph: Graph, steps: Sequence[str], roots: Sequence[str], width: int) -> list[str]:
    """The tree below each root, in lines of at most so many columns.

    A type is opened where it is nearest to a root, once; where it is met again, dots say so.

    Args:
        steps: those that are drawn.
        roots: types, or `NOTHING` for the steps that need no input.
    """
    tree = _open(graph, frozenset(steps), roots)
    lines: list[str] = []
    for root in roots:
        lines += [root, *_below(tree, root, "", width)]
    return lines


def _open(graph: Graph, steps: frozenset[str], roots: Sequence[str]) -> dict[str, list[Branch]]:
    """Type → the lines below it, for each type where it is met first."""
    tree: dict[str, list[Branch]] = {}
    met, line = set(roots), list(roots)
    for name in line:
        tree[name] = []
        for row in _rows(graph, steps, name):
            seen = row.made in met
            tree[name].append(Branch(row.step, row.made, row.also, seen and _continues(graph, steps, row.made)))
            if not seen and row.made:
                met.add(row.made)
                line.append(row.made)
    return tree


def _rows(graph: Graph, steps: frozenset[str], name: str) -> Iterator[Branch]:
    if name == NOTHING:
        for step in sorted(steps):
            if not graph.steps[step].needs:
                yield from (Branch(step, made) for made in graph.steps[step].makes or ("",))
        return
    if name in graph.types:
        for parent in graph.types.get(name).is_a:
            if _continues(graph, steps, parent):
                yield Branch("", parent)
    for step in _readers(graph, steps, name):
        also = tuple(other for other in graph.steps[step].needs if other != name)
        yield from (Branch(step, made, also) for made in graph.steps[step].makes or ("",))


def _readers(graph: Graph, steps: frozenset[str], name: str) -> list[str]:
    """The steps below a type, those first that need no other; where none needs it, those that may read it."""
    reading = [step for step in sorted(steps) if name in graph.steps[step].reads]
    needing = [step for step in reading if name in graph.steps[step].needs or not graph.steps[step].needs]
    return sorted(needing or reading, key=lambda step: len(graph.steps[step].needs) > 1)


def _continues(graph: Graph, steps: frozenset[str], name: str) -> bool:
    return not steps.isdisjoint(graph.consumers(name))


def _below(tree: dict[str, list[Branch]], name: str, indent: str, width: int) -> Iterator[str]:
    rows = tree.pop(name, [])  # what has been drawn is not drawn again
    for number, row in enumerate(rows):
        last = number == len(rows) - 1
        further = f"{indent}{'   ' if last else '│  '}"
        yield from _lines(f"{indent}{'└─' if last else '├─'} ", f"{further}    ", row.text, width)
        if row.made and not row.seen:
            yield from _below(tree, row.made, further, width)


def _lines(head: str, further: str, text: str, width: int) -> list[str]:
    """A row that no terminal cuts: what does not fit into a line goes on in the next; no name is broken."""
    whole = text.replace(" …", f"{_UNBROKEN}…").replace("→ ", f"→{_UNBROKEN}")
    lines = textwrap.wrap(
        whole, width, initial_indent=head, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(_UNBROKEN, " ") for line in lines]
