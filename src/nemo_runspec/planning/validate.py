"""A saved plan held against the rules that a profile is held against: somebody may have edited it, or made it."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nemo_runspec.duration import hours
from nemo_runspec.errors import Problems, UserError, did_you_mean
from nemo_runspec.field import problem_with, too_large
from nemo_runspec.plans.model import MODES, Plan
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.profiles.system import SYSTEM_SECTIONS
from nemo_runspec.runspec_keys import pattern_problem
from nemo_runspec.script.reserved import check_environment
from nemo_runspec.visible import hidden_in

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
"""RFC 1123: what every platform takes for a name."""

_MOST_DEEP, _MOST_VALUES = 100, 200_000
_LARGEST = 1_000_000
"""Nodes, processes or GPUs per node; no platform has as many."""

_ONE_OF: Mapping[str, tuple[Any, ...]] = {
    "mode": MODES,
    "launch.kind": ("torchrun", "direct", "ray"),
    "package.kind": ("none", "git", "pattern", "hybrid"),
}


def check_plan(plan: Plan, shown: str) -> None:
    """Raises `UserError` for what a plan of nemotron's own does not hold; every mistake of it at once.

    Args:
        shown: the plan's file, as a person names it.
    """
    _check_size(plan, shown)
    problems = [UserError(message, where=shown) for check in _CHECKS for message in check(plan)]
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise Problems(f"the saved plan has {len(problems)} problems", problems)
    try:
        check_environment(plan.env, [secret.name for secret in plan.secrets])
    except UserError as error:
        raise UserError(error.what, where=shown, remedy=error.remedy) from None


def _check_size(plan: Plan, shown: str) -> None:
    whole = plan.run | {"config": plan.config, "target": _table(plan.target)}
    for count, (deep, value) in enumerate(_values(whole)):
        if deep > _MOST_DEEP or count > _MOST_VALUES:
            raise UserError(f"the saved plan is nested too deeply, or has over {_MOST_VALUES:,} values", where=shown)
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"the saved plan holds {value}, which no job can be sent", where=shown)


def _words(plan: Plan) -> Iterator[str]:
    """Values of which there are few, and names."""
    if not _NAME.fullmatch(plan.name):
        yield f"name {plan.name!r} is no name of a job: small letters, digits and '-', at most 63"
    found = {"mode": plan.mode, "launch.kind": plan.launch.kind, "package.kind": plan.package.kind}
    for key, known in _ONE_OF.items():
        if found[key] not in known:
            yield f"{key} must be one of {', '.join(known)}, not {found[key]!r}"


def _numbers(plan: Plan) -> Iterator[str]:
    resources = plan.resources
    for key, least in (("nodes", 1), ("nproc_per_node", 1), ("gpus_per_node", 0)):
        if not least <= getattr(resources, key) <= _LARGEST:
            yield f"resources.{key} must be {least} to {_LARGEST:,}, not {getattr(resources, key)}"
    try:
        hours(resources.time or "0")
    except ValueError as error:
        yield f"resources.time is {error}"


def _paths(plan: Plan) -> Iterator[str]:
    """What is written into a job's directory stays there."""
    for path in (plan.launch.script, *(file.path for file in plan.bundle.files)):
        if not path or path.startswith("/") or ".." in path.split("/"):
            yield f"{path!r} is no path inside the job's directory"
    if not plan.job_dir or ".." in plan.job_dir.split("/"):
        yield f"job_dir = {plan.job_dir!r} is no job's directory"


def _known_errors(plan: Plan) -> Iterator[str]:
    for each in plan.recipe.errors:
        if problem := pattern_problem(each.pattern):
            yield f"recipe.errors: the pattern {each.pattern[:60]!r} {problem}"


def _hidden(plan: Plan) -> Iterator[str]:
    """What nemotron acts on holds no control characters. The config and the arguments are the user's own text."""
    texts = {
        "job_dir": plan.job_dir,
        "launch.setup": [*plan.launch.head_setup, *plan.launch.setup],
        "bundle.files": [file.path for file in plan.bundle.files],
        "env": [variable.name for variable in plan.env],
        **{f"target.{key}": value for key, value in _table(plan.target).items()},
    }
    for key, value in texts.items():
        if hidden := hidden_in(value):
            yield f"{key} holds the control character {hidden}, which no reader sees"
        if too_large(value):
            yield f"{key} has a number that no platform has"


def _profile(plan: Plan) -> Iterator[str]:
    """The keys of `run.env`, and their values."""
    env = plan.run.get("env")
    if not isinstance(env, dict):
        yield "run.env must be a table"
        return
    fields = fields_of(plan.executor).fields
    for key, value in env.items():
        if key not in fields:
            yield f"unknown key 'run.env.{key}'" + (f"; {near}" if (near := did_you_mean(key, fields)) else "")
        elif problem := problem_with(fields[key], value):
            yield f"run.env.{key} {problem}"
    for key, value in _table(plan.target).items():
        choices = fields[key].choices if key in fields else ()
        if choices and value not in (None, "", *choices):
            yield f"target.{key} must be one of {', '.join(choices)}, not {value!r}"


def _system(plan: Plan) -> Iterator[str]:
    for name in ("wandb", "artifacts"):
        values = plan.run.get(name)
        known = {field.name: field for field in SYSTEM_SECTIONS[name]}
        if not isinstance(values, dict):
            yield f"run.{name} must be a table"
            continue
        for key in known.keys() & values.keys():
            if problem := problem_with(known[key], values[key]):
                yield f"run.{name}.{key} {problem}"


_CHECKS: tuple[Callable[[Plan], Iterator[str]], ...] = (
    _words,
    _numbers,
    _paths,
    _known_errors,
    _hidden,
    _profile,
    _system,
)


def _table(value: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return {}
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _values(value: Any, deep: int = 0) -> Iterator[tuple[int, Any]]:
    yield deep, value
    if deep <= _MOST_DEEP:
        below = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
        for each in below:
            yield from _values(each, deep + 1)
