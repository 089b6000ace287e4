"""`nemotron artifacts lineage`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from nemo_runspec.text import clean, keep_end
from nemotron.cli.commands.artifacts.listing import as_data, made_by
from nemotron.cli.commands.artifacts.opening import opened, tell_problems
from nemotron.cli.forms import print_json
from nemotron.cli.text import paint, terminal_width

if TYPE_CHECKING:
    from nemo_runspec.artifacts.lineage import Lineage

_LEAST = 12
"""Columns in which a name is cut; with less it stands as it is."""


def call(reference: str, svg: str | None, profile: str | None, root: str | None, as_json: bool) -> int:
    """Draws where a version comes from and what comes from it."""
    from nemo_runspec.artifacts.lineage import lineage_of

    registry = opened(profile, root)
    found = lineage_of(registry, registry.get(reference))
    tell_problems(registry)
    if svg:
        from nemo_runspec.errors import UserError
        from nemo_runspec.paths import expanded, write_output
        from nemotron.cli.commands.artifacts.drawing import drawn

        try:
            write_output(expanded(svg), drawn(found))
        except OSError as error:
            raise UserError(f"{svg} cannot be written: {error.strerror}") from None
    if as_json:
        print_json(_data(found))
    elif svg:
        print(svg)
    else:
        print("\n".join(_page(found)))
    return 0


def _data(found: Lineage) -> dict[str, Any]:
    nodes = [
        {"label": node.label, "type": node.type or None, **({"version": as_data(node.version)} if node.version else {})}
        for node in found.nodes.values()
    ]
    edges = [{"from": first, "to": second} for first, second in found.edges]
    return {"reference": found.version.reference, "nodes": nodes, "edges": edges}


def _page(found: Lineage) -> Iterator[str]:
    top = found.version.reference
    yield _line(found, top, "")
    yield from _branch(found, top, found.sources, "made from", "")
    if found.results(top):
        yield ""
        yield "what was made from it:"
        yield from _branch(found, top, found.results, "", "")


def _branch(
    found: Lineage, label: str, step: Callable[[str], list[str]], word: str, indent: str, seen: tuple[str, ...] = ()
) -> Iterator[str]:
    """A tree below a node; what is drawn in it already is not drawn again."""
    below = step(label)
    for number, each in enumerate(below):
        last = number == len(below) - 1
        yield _line(found, each, f"{indent}{'└─ ' if last else '├─ '}")
        if each not in seen:
            deeper = f"{indent}{'   ' if last else '│  '}"
            yield from _branch(found, each, step, word, deeper, (*seen, label))


def _line(found: Lineage, label: str, indent: str) -> str:
    node = found.nodes[label]
    by = f"by {made_by(node.version)}" if node.version and made_by(node.version) else ""
    words = [node.type, by, "" if node.version or "(removed)" in label else "not registered"]
    rest = ", ".join(filter(None, words))
    width = terminal_width()
    room = None if width is None else width - len(indent) - len(rest) - 2
    name = clean(label) if room is None or room < _LEAST else keep_end(clean(label), room)
    return f"{indent}{paint(name, 'bold')}{f'  {rest}' if rest else ''}"
