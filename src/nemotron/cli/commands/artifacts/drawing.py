"""The lineage of a version as SVG: from raw data on the left to what was made last on the right."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from nemo_runspec.text import keep_end
from nemotron.cli.commands.artifacts.listing import made_by

if TYPE_CHECKING:
    from nemo_runspec.artifacts.lineage import Lineage, LineageNode

_WIDE, _HIGH, _GAP_X, _GAP_Y, _EDGE = 240, 54, 60, 22, 20
_LONGEST = 30
"""Characters of a line in a box."""
_STYLE = (
    "text{font-family:ui-monospace,monospace;font-size:12px;fill:#1f2328}.by{fill:#59636e}"
    "rect{fill:#f6f8fa;stroke:#8c959f;rx:6}.it rect{fill:#ddf4ff;stroke:#0969da}.raw rect{stroke-dasharray:4 3}"
    "path{fill:none;stroke:#8c959f}"
)


def drawn(found: Lineage) -> str:
    """The picture."""
    places = _places(found)
    right = max(x for x, _ in places.values()) + _WIDE + _EDGE
    bottom = max(y for _, y in places.values()) + _HIGH + _EDGE
    lines = [_arrow(places[first], places[second]) for first, second in found.edges]
    boxes = [_box(found, found.nodes[label], *place) for label, place in places.items()]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{right}" height="{bottom}" viewBox="0 0 {right} {bottom}">'
    title = f"<title>Lineage of {escape(found.version.reference)}</title><style>{_STYLE}</style>"
    return "\n".join((head, title, *lines, *boxes, "</svg>")) + "\n"


def _places(found: Lineage) -> dict[str, tuple[int, int]]:
    """Each in the column behind the last one of what it was made from."""
    columns: dict[str, int] = {}

    def column(label: str, above: tuple[str, ...] = ()) -> int:
        if label not in columns:
            before = [column(each, (*above, label)) for each in found.sources(label) if each not in above]
            columns[label] = max(before, default=-1) + 1
        return columns[label]

    filled: dict[int, int] = {}
    places = {}
    for label in sorted(found.nodes, key=lambda each: (column(each), each)):
        number = filled.get(columns[label], 0)
        filled[columns[label]] = number + 1
        places[label] = (_EDGE + columns[label] * (_WIDE + _GAP_X), _EDGE + number * (_HIGH + _GAP_Y))
    return places


def _arrow(first: tuple[int, int], second: tuple[int, int]) -> str:
    x, y, to_x, to_y = first[0] + _WIDE, first[1] + _HIGH // 2, second[0], second[1] + _HIGH // 2
    bend = (to_x - x) // 2
    return f'<path d="M{x} {y} C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}"/>'


def _box(found: Lineage, node: LineageNode, x: int, y: int) -> str:
    kind = "it" if node.label == found.version.reference else "made" if node.version else "raw"
    by = f" · {made_by(node.version)}" if node.version and made_by(node.version) else ""
    return (
        f'<g class="{kind}"><title>{escape(node.label)}</title><rect x="{x}" y="{y}" width="{_WIDE}" height="{_HIGH}"/>'
        f'<text x="{x + 10}" y="{y + 22}">{escape(keep_end(node.label, _LONGEST))}</text>'
        f'<text class="by" x="{x + 10}" y="{y + 41}">{escape(keep_end(node.type + by, _LONGEST))}</text></g>'
    )
