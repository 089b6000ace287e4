"""The graph of steps and types as a picture: types are rounded, steps are not, time goes from left to right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from nemo_runspec.artifacts.graph import Graph

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _EDGE = 216, 30, 70, 16, 24
_ROUNDS = 12
"""How often columns are put in order by what they are joined to."""
_COLOURS = {
    "curate": "#0f766e", "translate": "#0f766e", "sdg": "#0f766e", "byob": "#0f766e", "data_prep": "#0369a1",
    "pretrain": "#4d7c0f", "sft": "#4d7c0f", "peft": "#4d7c0f", "rl": "#4d7c0f", "optimize": "#a16207",
    "convert": "#7c3aed", "eval": "#be123c", "env": "#475569",
}  # fmt: skip
"""By the category of a step."""
_STYLE = """
  svg { background: #fff; font: 12px ui-sans-serif, system-ui, "DejaVu Sans", sans-serif; }
  .type rect { fill: #f8fafc; stroke: #64748b; } .type text { fill: #0f172a; }
  .step text { fill: #fff; } path { fill: none; stroke: #64748b; stroke-width: 1.2; }
  .optional { stroke-dasharray: 5 4; } .is { stroke-dasharray: 1.5 3; }"""


@dataclass(frozen=True)
class _Arrow:
    """From a node to another. `kind`: '', `optional`, or `is` for a type that another one is."""

    begin: str
    end: str
    kind: str = ""


def picture(graph: Graph, steps: Iterable[str]) -> str:
    """The text of an SVG file.

    Args:
        steps: those that are drawn, with the types that they read and make.
    """
    chosen = sorted(steps)
    arrows = _arrows(graph, chosen)
    nodes = [*chosen, *dict.fromkeys(_type(n) for s in chosen for n in (*graph.steps[s].reads, *graph.steps[s].makes))]
    columns = _in_order(_columns(nodes, arrows), arrows)
    tallest = max((len(column) for column in columns), default=0)
    width = len(columns) * (_WIDTH + _GAP_X) - _GAP_X + 2 * _EDGE
    height = tallest * (_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _EDGE
    places = {
        name: (_EDGE + x * (_WIDTH + _GAP_X), _EDGE + (y + (tallest - len(column)) / 2) * (_HEIGHT + _GAP_Y))
        for x, column in enumerate(columns)
        for y, name in enumerate(column)
    }
    body = [*(_curve(places, arrow) for arrow in arrows), *(_box(name, *places[name]) for name in nodes)]
    lines = "\n".join(f"  {line}" for line in body)
    size = f'width="{max(width, 1)}" height="{max(height, 1)}" viewBox="0 0 {max(width, 1)} {max(height, 1)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="steps and types of artifacts">'
    return f"{head}\n<style>{_STYLE}\n</style>\n{_HEADS}\n{lines}\n</svg>\n"


_HEADS = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z" style="fill:#64748b;stroke:none"/></marker></defs>'
)


def _type(name: str) -> str:
    """The node of a type: a step may be called the same."""
    return f" {name}"


def _arrows(graph: Graph, steps: Sequence[str]) -> list[_Arrow]:
    found = []
    for step in steps:
        each = graph.steps[step]
        found += [_Arrow(_type(n), step, "" if n in each.needs else "optional") for n in each.reads]
        always = {item.type for item in each.produces if item.required}
        found += [_Arrow(step, _type(n), "" if n in always else "optional") for n in each.makes]
    there = {arrow.begin for arrow in found} | {arrow.end for arrow in found}
    names = sorted(node[1:] for node in there if node.startswith(" "))
    is_a = ((n, p) for n in names if n in graph.types for p in graph.types.get(n).is_a if _type(p) in there)
    return [*found, *(_Arrow(_type(n), _type(p), "is") for n, p in is_a)]


def _columns(nodes: Sequence[str], arrows: Sequence[_Arrow]) -> list[list[str]]:
    """Nodes by their distance from those that nothing leads to; of a circle, the arrows back are not followed."""
    leads: dict[str, list[str]] = {name: [] for name in nodes}
    led = dict.fromkeys(nodes, 0)
    for arrow in arrows:
        leads[arrow.begin].append(arrow.end)
        led[arrow.end] += 1
    depth: dict[str, int] = {}
    line = [name for name in nodes if not led[name]] or list(nodes[:1])
    while len(depth) < len(nodes):
        line = line or [next(name for name in nodes if name not in depth)]
        depth.update({name: depth.get(name, 0) for name in line})
        for name in line:
            for other in leads[name]:
                if other not in depth:
                    depth[other] = depth[name] + 1
                    line.append(other)
        line = []
    found: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name in nodes:
        found[depth[name]].append(name)
    return found


def _in_order(columns: list[list[str]], arrows: Sequence[_Arrow]) -> list[list[str]]:
    """Each column by the mean place of what its nodes are joined to, back and forth: few lines cross then."""
    joined: dict[str, list[str]] = {}
    for arrow in arrows:
        joined.setdefault(arrow.begin, []).append(arrow.end)
        joined.setdefault(arrow.end, []).append(arrow.begin)
    for _ in range(_ROUNDS):
        place = {name: y - len(column) / 2 for column in columns for y, name in enumerate(column)}
        columns = [
            sorted(column, key=lambda n: _mean([place[o] for o in joined.get(n, ())], place[n])) for column in columns
        ]
    return columns


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _curve(places: Mapping[str, tuple[float, float]], arrow: _Arrow) -> str:
    """From the right side of a box to the left one of another; a line back leaves and comes below."""
    (x, y), (to_x, to_y) = places[arrow.begin], places[arrow.end]
    y, to_y = y + _HEIGHT / 2, to_y + _HEIGHT / 2
    if to_x > x:
        bend = (to_x - x - _WIDTH) / 2
        way = f"M{x + _WIDTH} {y}C{x + _WIDTH + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}"
    else:
        low = max(y, to_y) + _HEIGHT
        way = f"M{x + _WIDTH} {y}C{x + _WIDTH + 60} {low} {to_x - 60} {low} {to_x} {to_y}"
    kind = f' class="{arrow.kind}"' if arrow.kind else ""
    return f'<path{kind} d="{way}" marker-end="url(#head)"/>'


def _box(name: str, x: float, y: float) -> str:
    is_type = name.startswith(" ")
    shape = f'x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="{_HEIGHT / 2 if is_type else 4}"'
    fill = "" if is_type else f' fill="{_COLOURS.get(name.partition("/")[0], "#334155")}"'
    text = f'<text x="{x + _WIDTH / 2}" y="{y + _HEIGHT / 2 + 4}" text-anchor="middle">{escape(name.strip())}</text>'
    return f'<g class="{"type" if is_type else "step"}"><rect {shape}{fill}/>{text}</g>'
