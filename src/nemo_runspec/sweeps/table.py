"""The end of a sweep as a table: what was different, what came of it, the best first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nemo_runspec.errors import UserError, suggest
from nemo_runspec.sweeps.model import Member, Options, Sweep

PREFERRED = ("val_loss", "loss")
"""What members are compared by where nothing is said: the first of these that all which succeeded have."""

_COUNTERS = frozenset({"step", "total_steps", "time", "epoch", "rank"})
"""Numbers a recipe writes that say how far it got, not how well it did."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One member. `values`: in the order of the table's keys; `best`: the one to look at first."""

    member: Member
    values: tuple[str, ...]
    best: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Members compared.

    Args:
        keys: the overrides that differ.
        fixed: those that all members have.
        metric: what decides which is best, None where there is no common metric.
        maximize: a higher one is better.
        metrics: all there are to show, that one first.
        missing_metric: the requested metric, if no run logged it. Rows are then sorted by `metric`, and no run is
            marked best.
    """

    keys: tuple[str, ...]
    fixed: Mapping[str, str]
    metric: str | None
    maximize: bool
    metrics: tuple[str, ...]
    rows: tuple[TableRow, ...]
    missing_metric: str | None = None

    @property
    def best(self) -> TableRow | None:
        """The best member, None where none can be compared."""
        return next((row for row in self.rows if row.best), None)


def make_table(sweep: Sweep, sort: str | None = None) -> Table:
    """The table of a sweep.

    Args:
        sort: a metric, an override's key (or the end of one), `time` or `index`; None for what decides which is best.

    Raises:
        UserError: there is nothing of that name to sort by.
    """
    keys = varying_keys(sweep.members)
    missing = missing_metric_of(sweep.options, sweep.members)
    options = replace(sweep.options, metric=None, maximize=False) if missing else sweep.options
    metric = metric_of(options, sweep.members)
    maximize = options.maximize
    best = None if missing else _best(sweep.members, metric, maximize)
    members = sorted(sweep.members, key=_order(replace(sweep, options=options), keys, metric, sort))
    rows = tuple(TableRow(m, tuple(m.overrides.get(key, "") for key in keys), m is best) for m in members)
    fixed = {k: v for m in sweep.members[:1] for k, v in m.overrides.items() if k not in keys}
    return Table(keys, fixed, metric, maximize, shown_metrics(sweep.members, metric), rows, missing)


def missing_metric_of(options: Options, members: Sequence[Member]) -> str | None:
    """The requested metric, if members have started and none has logged it; else None."""
    begun = any(member.record for member in members)
    told = any(options.metric in member.metrics for member in members)
    return options.metric if begun and not told else None


def why_no_picture(table: Table) -> str:
    """Why nothing can be drawn of a table: no metric, or no number in it; empty where something can."""
    values = [row.member.metrics.get(table.metric or "", math.nan) for row in table.rows]
    if any(math.isfinite(value) for value in values):
        return ""
    if table.metric:
        return f"{table.metric} is no number in any run"
    return "the runs have told no metric that all of them have" if table.metrics else "no run has told a metric"


def varying_keys(members: Sequence[Member]) -> tuple[str, ...]:
    """The overrides that are not the same in all members; all of them where there is one member only."""
    keys = dict.fromkeys(key for member in members for key in member.overrides)
    if len(members) < 2:
        return tuple(keys)
    return tuple(key for key in keys if len({member.overrides.get(key) for member in members}) > 1)


def metric_of(options: Options, members: Sequence[Member]) -> str | None:
    """What members are compared by: what was asked for, else the preferred, else the first that all have."""
    if options.metric:
        return options.metric
    able = [m for m in members if m.state == "succeeded"] or members
    common = set.intersection(*(set(m.metrics) for m in able if m.metrics)) if any(m.metrics for m in able) else set()
    return next((name for name in (*PREFERRED, *sorted(common - _COUNTERS)) if name in common), None)


def shown_metrics(members: Iterable[Member], first: str | None = None) -> tuple[str, ...]:
    """Every metric some member has, counters left out: `first`, then the preferred, then by name."""
    found = {name for member in members for name in member.metrics} - _COUNTERS
    order = [name for name in dict.fromkeys((first, *PREFERRED, *sorted(found))) if name in found]
    return tuple(str(name) for name in order)


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """The shortest ends of dotted keys that tell them apart: `train.lr` → `lr`."""
    parts = {key: key.split(".") for key in keys}
    names = {}
    for key, words in parts.items():
        ends = (".".join(words[-count:]) for count in range(1, len(words) + 1))
        names[key] = next((e for e in ends if sum(f".{other}".endswith(f".{e}") for other in keys) == 1), key)
    return names


def label(member: Member, names: Mapping[str, str]) -> str:
    """A member's overrides in few words: `lr=0.001 seed=1`. `names`: the keys to show, and what to call them."""
    pairs = [f"{names[key]}={short_value(value)}" for key, value in member.overrides.items() if key in names]
    return " ".join(pairs) or f"run {member.index}"


def short_value(text: str) -> str:
    """An override's value for a person: a number of many digits, as sweepers choose them, with four that count."""
    value = as_number(text)
    return text if value is None or len(text) < 9 else f"{value:.4g}"


def number(value: float | None) -> str:
    """A metric in few characters: four digits that mean something; nothing for None."""
    if value is None:
        return ""
    whole = math.isfinite(value) and (float(value).is_integer() or abs(value) >= 10_000)
    return f"{value:,.0f}" if whole else f"{value:#.4g}"


def as_number(text: str) -> float | None:
    """The number an override's value is, None where it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _best(members: Sequence[Member], metric: str | None, maximize: bool) -> Member | None:
    sign = -1.0 if maximize else 1.0
    able = [m for m in members if m.state == "succeeded" and math.isfinite(m.metrics.get(metric or "", math.nan))]
    return min(able, key=lambda m: sign * m.metrics[str(metric)], default=None)


def _order(sweep: Sweep, keys: Sequence[str], metric: str | None, sort: str | None) -> Callable[[Member], Any]:
    """A sort key: members without a value come last, whichever way it is sorted."""
    metrics = {name for member in sweep.members for name in member.metrics}
    if sort is None or sort == metric:
        return _by_metric(metric, sweep.options.maximize)
    if sort in metrics:
        return _by_metric(sort, False)
    if sort == "index":
        return lambda member: member.index
    if sort == "time":
        return lambda m: (m.record is None or m.record.elapsed is None, (m.record and m.record.elapsed) or 0.0, m.index)
    key = {**{end: key for key, end in short_names(keys).items()}, **{key: key for key in keys}}.get(sort)
    if key is None:
        _refuse_same(sweep, sort)
        known = [" ".join(name.split()) for name in (*sorted(metrics), *keys, "time", "index")]
        near = suggest(sort, known)
        have = f"there are: {', '.join(known)}"
        raise UserError(
            f"the sweep has nothing called '{sort}' to sort by",
            remedy=f"did you mean '{near}'? {have}" if near else have,
        )
    return lambda m: (*_natural(m.overrides.get(key, "")), m.index)


def _refuse_same(sweep: Sweep, sort: str) -> None:
    """Says of a key that all members have with one value that it tells them not apart."""
    same = {key: value for member in sweep.members[:1] for key, value in member.overrides.items()}
    names = {**{end: key for key, end in short_names(list(same)).items()}, **{key: key for key in same}}
    if sort in names:
        raise UserError(
            f"'{names[sort]}' is {same[names[sort]]} in all runs: there is nothing to sort by it",
            remedy="--sort index, or what differs: see the table",
        )


def _by_metric(metric: str | None, maximize: bool) -> Callable[[Member], Any]:
    def order(member: Member) -> tuple[bool, bool, bool, float, int]:
        value = member.metrics.get(metric or "", math.nan)
        usable = math.isfinite(value)
        figure = (-value if maximize else value) if usable else 0.0
        return (member.record is None, member.state != "succeeded", not usable, figure, member.index)

    return order


def _natural(text: str) -> tuple[bool, float, str]:
    value = as_number(text)
    return (value is None, value or 0.0, text)
