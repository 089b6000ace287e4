"""The picture of a sweep: on the left what the swept values did to the metric, on the right how training went.

Matplotlib takes half a second to import and is imported only here, without a display (its Agg canvas).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_runspec.sweeps.model import Member
from nemo_runspec.sweeps.series import Series, read_series
from nemo_runspec.sweeps.table import PREFERRED, Table, as_number, label, number, short_names
from nemo_runspec.text import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    # Not at run time: a sweep that 0.1.0 leads draws with this module, where that has taken the place of its own.
    from nemo_runspec.sweeps.table import TableRow

_INK, _FAINT, _GRID, _BEST = "#22262b", "#6b7280", "#e5e7eb", "#d9480f"
_GROUPS = ("#2563a8", "#2a9d72", "#8a5fbf", "#b7860b", "#4b5563", "#c2557a")
"""Told apart by most people who see colours differently, and from `_BEST`."""
_DOTS, _NAMED_CURVES, _GROUPED = 30, 10, len(_GROUPS)
"""Up to `_NAMED_CURVES` runs each has a name in the legend, and a colour that no other has."""
_STYLE: Mapping[str, Any] = {
    "font.size": 10,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "text.color": _INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "white",
}


@dataclass(frozen=True)
class _Point:
    """A member that has the metric. `x`: the swept number, None where there is no such axis."""

    row: TableRow
    y: float
    x: float | None = None
    group: str = ""


@dataclass(frozen=True)
class _Axis:
    """The swept number that the left panel has along the bottom, and the other key its lines are told apart by."""

    key: str
    other: str | None = None


def draw(table: Table, file: Path, *, title: str) -> bool:
    """Draws the picture of a table into a PNG; False where no member has the metric, so that there is none.

    Raises:
        OSError: the file cannot be written.
    """
    points = _points(table)
    if not points:
        return False
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    curves = _curves(table, points)
    axis = _axis_of(table, points)
    with rc_context(dict(_STYLE)):
        rows = min(len(points), _DOTS)
        height = 4.4 if axis else max(3.6, 1.6 + 0.27 * rows)
        figure = Figure(figsize=(11.5 if curves else 6.4, height), dpi=144, layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, 2 if curves else 1, squeeze=False)[0]
        colours = _colours(points, axis)
        if axis:
            _draw_values(panels[0], table, points, axis, colours)
        else:
            _draw_ranking(panels[0], table, points[:_DOTS], len(points), colours)
        if curves:
            _draw_curves(panels[1], table, curves, points, colours)
        figure.suptitle(_plain(title), x=0.01, ha="left", fontsize=10, color=_FAINT)
        _save(figure, file)
    return True


def _points(table: Table) -> list[_Point]:
    """Members with the metric, the best first; those that did not succeed only where none did."""
    rows = [row for row in table.rows if row.member.state == "succeeded"] or table.rows
    found = [_Point(row, row.member.metrics.get(table.metric or "", math.nan)) for row in rows]
    usable = [point for point in found if math.isfinite(point.y)]
    sign = -1 if table.maximize else 1
    return sorted(usable, key=lambda point: (not point.row.best, sign * point.y, point.row.member.index))


def _axis_of(table: Table, points: Sequence[_Point]) -> _Axis | None:
    """The swept number, where there is exactly one, or one beside a key with few values."""
    values = {key: [p.row.member.overrides.get(key, "") for p in points] for key in table.keys}
    numeric = [key for key, texts in values.items() if all(as_number(t) is not None for t in texts)]
    numeric.sort(key=lambda key: -len(set(values[key])))
    if len(table.keys) == 1 and numeric and len(set(values[numeric[0]])) > 1:
        return _Axis(numeric[0])
    if len(table.keys) == 2 and numeric and len(set(values[numeric[0]])) > 2:
        other = next(key for key in table.keys if key != numeric[0])
        return _Axis(numeric[0], other) if len(set(values[other])) <= _GROUPED else None
    return None


def _colours(points: Sequence[_Point], axis: _Axis | None) -> dict[str, Any]:
    """Job name → colour, the same in both panels: shades of its group's, else by the swept value, or by rank."""
    if axis and axis.other:
        return {
            point.row.member.name: colour
            for place, group in enumerate(_groups(points, axis))
            for point, colour in _shades([p for p in points if _group(p, axis) == group], axis, _GROUPS[place])
        }
    from matplotlib import colormaps

    shades = colormaps["viridis"]
    ordered = _in_order(points, axis) if axis else [[point] for point in points]
    top = max(len(ordered) - 1, 1)
    return {p.row.member.name: shades(0.88 * place / top) for place, same in enumerate(ordered) for p in same}


def _shades(points: Sequence[_Point], axis: _Axis, colour: str) -> list[tuple[_Point, Any]]:
    """Points of one group, each with a shade of its colour: light for the lowest swept value, full for the highest."""
    from matplotlib.colors import to_rgb

    ordered = _in_order(points, axis)
    top = max(len(ordered) - 1, 1)
    lightness = [0.6 * (top - place) / top if len(ordered) > 1 else 0.0 for place in range(len(ordered))]
    red, green, blue = to_rgb(colour)
    return [
        (point, tuple(part + (1 - part) * light for part in (red, green, blue)))
        for same, light in zip(ordered, lightness, strict=True)
        for point in same
    ]


def _in_order(points: Sequence[_Point], axis: _Axis) -> list[list[_Point]]:
    """Points by their swept value, those with the same together; each by itself where they are few."""
    if len(points) <= _NAMED_CURVES:
        return [[point] for point in sorted(points, key=lambda p: _x(p, axis))]
    return [[p for p in points if _x(p, axis) == x] for x in sorted({_x(p, axis) for p in points})]


def _groups(points: Sequence[_Point], axis: _Axis) -> list[str]:
    return list(dict.fromkeys(sorted((_group(p, axis) for p in points), key=_group_order)))


def _draw_values(ax: Axes, table: Table, points: Sequence[_Point], axis: _Axis, colours: Mapping[str, Any]) -> None:
    names = short_names(table.keys)
    for place, group in enumerate(_groups(points, axis)):
        mine = sorted((p for p in points if _group(p, axis) == group), key=lambda p: _x(p, axis))
        line = _GROUPS[place] if axis.other else _FAINT
        text = f"{names[axis.other]} = {_plain(group)}" if axis.other else None
        xs, ys = [_x(p, axis) for p in mine], [p.y for p in mine]
        ax.plot(xs, ys, color=line, linewidth=1.4, alpha=0.8, label=text, zorder=2)
        shades = [colours[p.row.member.name] for p in mine]
        ax.scatter(xs, ys, c=shades, s=44, zorder=3, edgecolors="white", linewidths=0.8)
    if _spans_decades([_x(p, axis) for p in points]):
        ax.set_xscale("log")
    ax.margins(x=0.08, y=0.12)
    _scale_y(ax, [p.y for p in points])
    _mark_best(ax, table, points, axis)
    ax.set(xlabel=_plain(axis.key), ylabel=_plain(str(table.metric)))
    ax.set_title(f"{_plain(str(table.metric))} by {_plain(names[axis.key])}")
    if axis.other:
        ax.legend(loc="best")


def _mark_best(ax: Axes, table: Table, points: Sequence[_Point], axis: _Axis) -> None:
    best = next((p for p in points if p.row.best), None)
    if best is None:
        return
    x, y = _x(best, axis), best.y
    ax.scatter([x], [y], s=150, facecolors="none", edgecolors=_BEST, linewidths=1.8, zorder=4)
    above = table.maximize
    ax.annotate(
        f"best {number(y)}", (x, y), xytext=(0, 13 if above else -13), textcoords="offset points",
        ha="center", va="bottom" if above else "top", color=_BEST, fontsize=9, zorder=5,
    )  # fmt: skip
    ax.margins(y=0.2)


def _draw_ranking(
    ax: Axes, table: Table, points: Sequence[_Point], all_of_them: int, colours: Mapping[str, Any]
) -> None:
    """One line of dots from the best at the top to the worst, with the overrides at the side."""
    names = short_names(table.keys)
    places = list(range(len(points)))
    ys = [p.y for p in points]
    ax.hlines(places, min(ys), ys, color=_GRID, linewidth=2, zorder=1)
    ax.scatter(ys, places, c=[colours[p.row.member.name] for p in points], s=46, zorder=3)
    for place, point in zip(places, points, strict=True):
        ink = _BEST if point.row.best else _FAINT
        ax.annotate(
            number(point.y), (point.y, place), xytext=(12 if point.row.best else 8, 0), textcoords="offset points",
            va="center", fontsize=8.5, color=ink, fontweight="bold" if point.row.best else "normal",
        )  # fmt: skip
    ax.set_yticks(places, [_cut(label(p.row.member, names), 44) for p in points], color=_INK)
    if points[0].row.best:
        ax.scatter(ys[:1], places[:1], s=150, facecolors="none", edgecolors=_BEST, linewidths=1.8, zorder=4)
        ax.get_yticklabels()[0].set_color(_BEST)
    ax.margins(x=0.16)
    ax.set_ylim(len(points) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    left_out = all_of_them - len(points)
    ax.set(xlabel=_plain(str(table.metric)))
    ax.set_title(f"{_plain(str(table.metric))}, best first" + (f" (of {all_of_them})" if left_out else ""))


def _curves(table: Table, points: Sequence[_Point]) -> dict[str, Series]:
    """Job name → its curve: of the loss, where the members have one, else of what they are compared by."""
    has_loss = any("loss" in p.row.member.metrics for p in points)
    metric = PREFERRED[1] if has_loss else str(table.metric)
    found = {p.row.member.name: read_series(p.row.member.metrics_file, metric) for p in points}
    return {name: series for name, series in found.items() if len(series.values) > 1}


def _draw_curves(
    ax: Axes, table: Table, curves: Mapping[str, Series], points: Sequence[_Point], colours: Mapping[str, Any]
) -> None:
    names = short_names(table.keys)
    few = len(curves) <= _NAMED_CURVES
    for point in reversed(points):  # the best last: on top
        member, best = point.row.member, point.row.best
        if member.name not in curves:
            continue
        series = curves[member.name]
        thick, opaque = (2.4, 1.0) if best else (1.3, 0.85 if few else 0.45)
        colour = _BEST if best else colours[member.name]
        ax.plot(series.steps, series.values, color=colour, linewidth=thick, alpha=opaque,
                label=_legend(member, names, best) if few or best else None)  # fmt: skip
    values = [value for series in curves.values() for value in series.values if math.isfinite(value)]
    _scale_y(ax, values)
    metric = "loss" if any("loss" in p.row.member.metrics for p in points) else str(table.metric)
    ax.set(xlabel="step", ylabel=_plain(metric))
    ax.set_title(f"{_plain(metric)} over the steps" + ("" if few else f" of {len(curves)} runs"))
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], loc="best")


def _legend(member: Member, names: Mapping[str, str], best: bool) -> str:
    return _cut(label(member, names), 34) + ("  (best)" if best else "")


def _scale_y(ax: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis where a run that went astray would press all others flat."""
    positive = [value for value in values if value > 0]
    if len(positive) == len(values) and positive and max(positive) > 100 * min(positive):
        ax.set_yscale("log")


def _spans_decades(xs: Sequence[float]) -> bool:
    return min(xs) > 0 and max(xs) >= 8 * min(xs)


def _x(point: _Point, axis: _Axis) -> float:
    return as_number(point.row.member.overrides[axis.key]) or 0.0


def _group(point: _Point, axis: _Axis) -> str:
    return point.row.member.overrides.get(axis.other, "") if axis.other else ""


def _group_order(group: str) -> tuple[bool, float, str]:
    value = as_number(group)
    return (value is None, value or 0.0, group)


def _cut(text: str, longest: int) -> str:
    return _plain(shorten(text, longest))


def _plain(text: str) -> str:
    """Text in which Matplotlib finds no formula: a dollar sign is a dollar sign."""
    return text.replace("$", r"\$")


def _save(figure: Figure, file: Path) -> None:
    """Whole or not at all, for its owner only."""
    scratch = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        figure.savefig(scratch, format="png")
        scratch.chmod(0o600)
        scratch.replace(file)
    finally:
        scratch.unlink(missing_ok=True)
