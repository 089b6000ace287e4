"""Differences between two plans, leaving out what differs by nature: the job's name and the paths made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nemo_runspec.planning.codec import plan_to_dict
from nemo_runspec.plans.model import Plan
from nemo_runspec.profiles.layers import flatten

_LEFT_OUT = ("name", "job_dir", "sources", "run.name", "overrides", "schema")
_ABSENT = object()

_CHOSEN = (
    "recipe.path", "config_name", "profile", "executor", "mode", "config.", "run.", "resources.", "launch.args",
    "launch.kind", "python.", "package.commit", "package.digest", "package.kind",
)  # fmt: skip
"""What of a plan somebody has chosen, by the beginnings of paths; all else follows from it."""


@dataclass(frozen=True)
class Difference:
    """One path whose value differs. `kind` is `changed`, `added` or `removed`; sources are labels or None."""

    path: str
    kind: str
    before: Any
    after: Any
    before_source: str | None = None
    after_source: str | None = None


def diff_plans(before: Plan, after: Plan) -> list[Difference]:
    """Every leaf that differs, in the order of the later plan. Secrets are compared by where they are found."""
    left, right = _leaves(before), _leaves(after)
    paths = [*right, *(p for p in left if p not in right)]
    return [
        _difference(path, left.get(path, _ABSENT), right.get(path, _ABSENT), before, after)
        for path in paths
        if left.get(path, _ABSENT) != right.get(path, _ABSENT)
    ]


def differing(plans: Sequence[Plan]) -> dict[str, list[Any]]:
    """The chosen values in which several plans differ: path → its value in each, None where it has none.

    What follows from them is left out: paths, files, the environment, what a platform is sent.
    """
    found = [_leaves(plan) for plan in plans]
    paths = dict.fromkeys(path for leaves in found for path in leaves if path.startswith(_CHOSEN))
    values = {path: [leaves.get(path) or _plain_or_none(leaves.get(path)) for leaves in found] for path in paths}
    return {_shown(path): each for path, each in values.items() if any(value != each[0] for value in each)}


def _plain_or_none(value: Any) -> Any:
    """An empty list or table is as good as none."""
    return None if isinstance(value, (list, dict)) else value


def _difference(path: str, old: Any, new: Any, before: Plan, after: Plan) -> Difference:
    kind = "added" if old is _ABSENT else "removed" if new is _ABSENT else "changed"
    return Difference(
        _shown(path),
        kind,
        None if old is _ABSENT else old,
        None if new is _ABSENT else new,
        _label(before, path),
        _label(after, path),
    )


def _shown(path: str) -> str:
    """A config key as it is typed, unless that would be a key of the plan itself."""
    short = path.removeprefix("config.")
    return path if short.split(".")[0] in {f.name for f in dataclasses.fields(Plan)} else short


def _leaves(plan: Plan) -> dict[str, Any]:
    data = plan_to_dict(plan)
    table = {k: _keyed(v) for k, v in data.items() if k not in _LEFT_OUT}
    return {p: _same_name(v, plan.name) for p, v in flatten(table).items() if p not in _LEFT_OUT}


def _keyed(value: Any) -> Any:
    """Lists of named things by name, so that one more does not shift all others."""
    if isinstance(value, dict):
        return {k: _keyed(v) for k, v in value.items()}
    if isinstance(value, list) and value and all(isinstance(v, dict) and ("name" in v or "path" in v) for v in value):
        names = [str(v.get("name") or v.get("path")) for v in value]
        if len(set(names)) == len(names):
            return {name: {k: _keyed(x) for k, x in v.items()} for name, v in zip(names, value, strict=True)}
    return value


def _same_name(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return value.replace(name, "<job>")
    if isinstance(value, list):
        return [_same_name(v, name) for v in value]
    return value


def _label(plan: Plan, path: str) -> str | None:
    source = plan.sources.get(path.removeprefix("config."))
    return source.label() if source else None
