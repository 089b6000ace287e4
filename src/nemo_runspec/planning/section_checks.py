"""Checks of a composed `run` section: it keeps its tables, its types, and says nothing that is decided elsewhere."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.field import Field, problem_with
from nemo_runspec.profiles.common import nodes_of, processes_per_node
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.profiles.interpolate import retype
from nemo_runspec.profiles.profile import one_or_all, type_problem
from nemo_runspec.profiles.system import SYSTEM_SECTIONS
from nemo_runspec.source import COMMAND_LINE
from nemo_runspec.text import count

if TYPE_CHECKING:
    from nemo_runspec.config.compose import Composition  # brings Hydra

FIXED = {
    "name": "every run gets a name of its own",
    "recipe": "it is the command itself: nemotron list",
    "config": "choose it with -c",
    "mode": "choose it with --run or --batch",
    "profile": "choose it with --run or --batch",
    "executor": "it decides where a job runs: name a profile of that executor with --run or --batch",
}
"""What no override may change, and what does."""

_ARTIFACT_KEYS = ("artifact", "path", "recipe", "config", "make")


def check_shape(composition: Composition, fixed: Mapping[str, Any], artifacts: Iterable[str]) -> None:
    """The command line may change what stands in `run`, not its tables nor what says which job this is.

    Args:
        fixed: dotted path → the value it must have.
        artifacts: names of the recipe's inputs and outputs.

    Raises:
        UserError: the first thing that is wrong.
    """
    artifacts = list(artifacts)
    composition.run_section()
    for key, value in fixed.items():
        if composition.select(key) != value:
            raise UserError(f"{key} is not set this way", where=COMMAND_LINE, remedy=FIXED[key.rpartition(".")[2]])
    for name in ("env", "wandb", "artifacts", *artifacts):
        if not isinstance(composition.select(f"run.{name}"), Mapping):
            raise UserError(
                f"run.{name} must stay a table", where=COMMAND_LINE, remedy=f"set its keys: run.{name}.KEY=VALUE"
            )
    for name in artifacts:
        _check_artifact(composition, f"run.{name}")
    _check_system(composition)


def check_types(
    composition: Composition, env: dict[str, Any], executor: str, only: Collection[str] | None = None
) -> None:
    """Checks `run.env` against the fields of its executor; text that came from a variable becomes what it stands for.

    Args:
        only: the keys to look at; all by default.

    Raises:
        UserError: every value of a wrong type, with its place.
    """
    fields = fields_of(executor)
    problems = []
    for key, value in [(key, value) for key, value in env.items() if only is None or key in only]:
        if key not in fields.fields:
            known = did_you_mean(key, fields.fields) or f"keys of executor '{executor}': nemotron env fields {executor}"
            problems.append(
                UserError(f"no key 'run.env.{key}'", where=composition.place(f"run.env.{key}"), remedy=known)
            )
        else:
            env[key] = retype(value, fields.fields[key].type)
            place = _of_the_wrong_part(fields.fields[key], env[key], f"run.env.{key}")
            problem = type_problem(key, env[key], fields, composition.source_of(place))
            if problem is not None:
                problems.append(problem)
    if problems:
        raise one_or_all("run.env has", problems)


def referring(written: Any, table: Mapping[str, Any]) -> list[str]:
    """The keys of a table whose values refer to something, and may be others once that has another value.

    Args:
        written: the same with its interpolations as they are written; one instead of the table refers as a whole.
    """
    return [key for key in table if not isinstance(written, Mapping) or "${" in repr(written.get(key))]


def _of_the_wrong_part(declared: Field, value: Any, path: str) -> str:
    """The path of the key of a table that has a problem by itself; else that of the value."""
    keys = value if isinstance(value, Mapping) else ()
    return next((f"{path}.{key}" for key in keys if problem_with(declared, {key: value[key]})), path)


def check_plain(composition: Composition, value: Any, path: str = "") -> None:
    """Raises `UserError` for what JSON cannot hold unchanged: keys that are no text, bytes, infinite numbers."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            if not isinstance(key, str):
                what = f"{path or 'the config'}: a key must be text, not {key!r}"
                raise UserError(what, where=_where(composition, path), remedy=f'quote it: "{key}"')
            check_plain(composition, below, f"{path}.{key}".lstrip("."))
    elif isinstance(value, (list, tuple)):
        for below in value:
            check_plain(composition, below, path)
    elif isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value)):
        what = f"{path}: {value!r} cannot be kept in a plan"
        raise UserError(what, where=_where(composition, path), remedy="write it as text: quote it")


def _where(composition: Composition, path: str) -> str | None:
    return composition.place(path) if path else None


def _check_artifact(composition: Composition, path: str) -> None:
    table = composition.resolved(path)
    for key in _ARTIFACT_KEYS:
        if not isinstance(table.get(key), (str, type(None))):
            raise UserError(
                f"{path}.{key} must be a string, not {table[key]!r}", where=composition.place(f"{path}.{key}")
            )


def _check_system(composition: Composition) -> None:
    for name in ("wandb", "artifacts"):
        values = composition.resolved(f"run.{name}")
        for declared in SYSTEM_SECTIONS[name]:
            problem = problem_with(declared, values.get(declared.name))
            if problem:
                path = f"run.{name}.{declared.name}"
                raise UserError(f"{path} {problem}", where=composition.place(path))


def process_warnings(env: Mapping[str, Any], launch: str, gpus: int | None) -> list[str]:
    """What is odd about how many processes there are, or how they are told so.

    Args:
        gpus: of all nodes, whatever asks for them; None where that is not known.
    """
    processes, wanted = processes_per_node(env), env.get("gpus_per_node")
    by_gpus = wanted is None and not env.get("nproc_per_node")
    each = (gpus or 0) // nodes_of(env) if by_gpus else wanted
    found = []
    if launch == "torchrun" and each and processes != each:
        said = f"{count(processes, 'process', 'processes')} per node for {count(each, 'GPU')} per node"
        found.append(f"{said}; one for each: gpus_per_node = {each}" if by_gpus else said)
    if launch == "torchrun" and env.get("world_size") == "nodes":
        found.append(
            'world_size = "nodes" does nothing for this recipe: torchrun tells its processes how many they are'
        )
    return found
