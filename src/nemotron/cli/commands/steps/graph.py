"""`nemotron steps graph`: which steps read and make which types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nemo_runspec.artifacts.graph import Graph
from nemo_runspec.errors import UserError
from nemo_runspec.paths import write_output
from nemotron.cli.commands.steps.loaded import load_graph
from nemotron.cli.commands.steps.svg import picture
from nemotron.cli.commands.steps.tree import NOTHING, draw
from nemotron.cli.text import terminal_width

_LEGEND = "= may be used as    + needs besides    … is opened elsewhere"


def call(have: tuple[str, ...], to: str | None, svg: str | None, *, as_json: bool) -> int:
    """Draws the graph, or the part of it between types; the exit code is 1 where there is none.

    Raises:
        UserError: a type that there is not; no step lies between; the picture cannot be written.
    """
    graph, _ = load_graph()
    for name in (*have, *([to] if to else ())):
        graph.types.get(name)
    steps = graph.between(have, to)
    if not steps:
        begin, end = " or ".join(have) or "nothing", to or "any step"
        error = UserError(f"no step lies between {begin} and {end}", remedy="see all: nemotron steps graph")
        error.exit_code = 1
        raise error
    if svg is not None:
        _write(Path(svg), picture(graph, steps))
    if as_json:
        print(json.dumps(_as_json(graph, steps), indent=2))
    elif svg is not None:
        print(f"wrote {svg}")
    else:
        print("\n".join([*draw(graph, steps, have or _roots(graph, steps), terminal_width() or 1000), "", _LEGEND]))
    return 0


def _roots(graph: Graph, steps: list[str]) -> list[str]:
    """Types that no step of these makes, where they are read; steps that need none."""
    made = {each for step in steps for name in graph.steps[step].makes for each in (name, *graph.types.ancestors(name))}
    read = sorted({name for step in steps for name in graph.steps[step].reads})
    alone = [NOTHING] if any(not graph.steps[step].needs for step in steps) else []
    others = [n for n in graph.types.names() if n not in made and set(steps).intersection(graph.consumers(n))]
    return [*(n for n in dict.fromkeys([*others, *read]) if n not in made), *alone] or read[:1]


def _write(file: Path, text: str) -> None:
    try:
        write_output(file, text)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}", remedy="name another file") from None


def _as_json(graph: Graph, steps: list[str]) -> dict[str, Any]:
    names = {name for step in steps for name in (*graph.steps[step].reads, *graph.steps[step].makes)}
    return {
        "types": [
            {"name": name, "is_a": list(graph.types.get(name).is_a) if name in graph.types else []}
            for name in sorted({*names, *(a for name in names for a in graph.types.ancestors(name))})
        ],
        "steps": [
            {
                "id": step,
                "consumes": [
                    {"name": i.name, "type": i.type, "required": i.required} for i in graph.steps[step].consumes
                ],
                "produces": [
                    {"name": i.name, "type": i.type, "required": i.required} for i in graph.steps[step].produces
                ],
            }
            for step in steps
        ],
    }
