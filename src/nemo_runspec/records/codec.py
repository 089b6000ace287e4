"""A job record as JSON: strict on what is written, lenient towards what an older or newer version wrote."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from nemo_runspec.duration import is_moment
from nemo_runspec.records.facts import JobFacts, from_table, to_table
from nemo_runspec.records.lifecycle import Attempt, Cancellation, Deadlines, Launcher, Relations
from nemo_runspec.records.record import RECORD_SCHEMA, STATES, JobRecord, Transition
from nemo_runspec.typed_json import plain, read_any

_NONE = type(None)
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("name", "recipe", "executor", "mode", "cwd", "user", "host", "cause", "note", "on_end"), (str,)),
    "job_dir": (str,),
    **dict.fromkeys(("config", "profile", "commit", "group", "container", "retry_of"), (str, _NONE)),
    **dict.fromkeys(("exit_code", "signal"), (int, _NONE)),
    **dict.fromkeys(("outputs", "inputs", "package", "metrics", "handle", "diagnosis", "wandb", "image"), (dict,)),
    **dict.fromkeys(("argv", "overrides", "states", "tags"), (tuple,)),
    **dict.fromkeys(("launcher", "process"), (Launcher, _NONE)),
    **dict.fromkeys(("elapsed", "sent", "total_steps"), (int, float, _NONE)),
    "attempt": (Attempt, _NONE),
    "deadlines": (Deadlines, _NONE),
    "cancellation": (Cancellation, _NONE),
    "relations": (Relations,),
    "facts": (JobFacts,),
    "schema": (int,),
}
"""What a record's fields may be, so that whoever shows them need not ask."""

TYPED: Mapping[str, Any] = {
    "attempt": Attempt | None,
    "deadlines": Deadlines | None,
    "cancellation": Cancellation | None,
    "relations": Relations,
}
"""Fields that are records of their own."""

_FIELDS: Mapping[type, tuple[str, ...]] = {
    kind: tuple(f.name for f in fields(kind)) for kind in (JobRecord, Transition, Launcher)
}
_NEEDED = tuple(f.name for f in fields(JobRecord) if f.default is MISSING and f.default_factory is MISSING)
_NOT_IN_JSON = ("nan", "inf", "-inf")
_EMPTY = "it is empty"
_DAMAGED = "it is damaged: a part of it is not what it should be"
_NOT_A_RECORD = "it holds something else than a job record"


def to_json(record: JobRecord) -> str:
    """The record as it is stored.

    Raises:
        ValueError: a field holds what a reader would refuse; nothing must be written then.
    """
    _check(record)
    return json.dumps(to_dict(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def to_dict(record: JobRecord) -> dict[str, Any]:
    """The record as plain tables, lists and scalars. A metric that is no number in JSON is its text: `"nan"`."""
    data = {name: getattr(record, name) for name in _FIELDS[JobRecord]}
    for name in ("launcher", "process"):
        data[name] = data[name] and _table(data[name])
    data["states"] = [_table(step) for step in record.states]
    data |= {name: dict(data[name]) for name in ("handle", "diagnosis", "wandb", "image")}
    data["facts"] = to_table(record.facts)
    data |= {name: plain(data[name]) for name in TYPED}
    data["metrics"] = {name: v if math.isfinite(v) else str(v) for name, v in record.metrics.items()}
    return data


def from_json(text: str) -> JobRecord:
    """A stored record. Keys a later version added are left out, those an older one did not know have their defaults.

    Raises:
        ValueError: it is not a record, or one of a later schema; the message is the end of a plain sentence.
    """
    data = _table_in(text)
    if not isinstance(data, dict) or type(data.get("schema")) is not int:
        raise ValueError(_NOT_A_RECORD)
    if data["schema"] > RECORD_SCHEMA:
        raise ValueError(
            f"a later version of nemotron wrote it (schema {data['schema']}, this one reads {RECORD_SCHEMA})"
        )
    for name in _NEEDED:
        if name not in data:
            raise ValueError(f"it lacks '{name}'")
    try:
        is_whole = data["schema"] == RECORD_SCHEMA and "job_dir" in data
        record = _record(data if is_whole else _translated(data))
    except (TypeError, AttributeError, KeyError, OverflowError):
        raise ValueError(_DAMAGED) from None
    _check(record)
    return record


def _translated(data: Mapping[str, Any]) -> Mapping[str, Any]:
    from nemo_runspec.records.earlier import as_now

    return as_now(data)


def _table_in(text: str) -> Any:
    if not text.strip("\0 \t\r\n"):
        raise ValueError(_EMPTY)
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        raise ValueError("it is cut off or damaged" if text.lstrip().startswith("{") else _NOT_A_RECORD) from None


def _refuse(constant: str) -> float:
    raise ValueError(constant)  # NaN and Infinity are no JSON, and could not be written again


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _record(data: Mapping[str, Any]) -> JobRecord:
    values = _known(JobRecord, data)
    values["argv"] = tuple(data["argv"])
    values["states"] = tuple(_transition(step) for step in data["states"])
    values["overrides"] = tuple(data.get("overrides") or ())
    values["tags"] = tuple(data.get("tags") or ())
    values["metrics"] = {name: _number(value) for name, value in (data.get("metrics") or {}).items()}
    for key in ("launcher", "process"):
        values[key] = Launcher(**_known(Launcher, data[key])) if data.get(key) else None
    values["facts"] = from_table(data.get("facts") or {})
    for key, kind in TYPED.items():
        if key in data:
            values[key] = read_any(kind, data[key], key, lenient=True)
    return JobRecord(**values)


def _number(value: Any) -> float:
    if isinstance(value, str) and value not in _NOT_IN_JSON:
        raise TypeError
    return float(value)


def _transition(data: Mapping[str, Any]) -> Transition:
    step = Transition(**_known(Transition, data))
    if step.state not in STATES:
        raise ValueError(f"it names a state there is not: {step.state!r}")
    if not isinstance(step.reason, str):
        raise ValueError("it holds something else where a text should be")
    if not is_moment(step.time):
        raise ValueError(f"it holds a time without its offset from UTC: {step.time!r}")
    return step


def _check(record: JobRecord) -> None:
    if not record.states:
        raise ValueError("it holds no state")
    for name, kinds in _TYPES.items():
        value = getattr(record, name)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise ValueError(f"its {name} cannot be {value!r}")
    _check_processes(record)
    if not all(type(value) in (int, float) for value in record.metrics.values()):
        raise ValueError("its metrics hold something else than numbers")
    texts = (
        *record.argv,
        *record.overrides,
        *record.tags,
        *record.outputs,
        *record.outputs.values(),
        *record.inputs,
        *record.inputs.values(),
        *record.metrics,
    )
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("it holds something else where a text should be")


def _check_processes(record: JobRecord) -> None:
    for process in (record.launcher, record.process):
        if process and [type(getattr(process, key)) for key in _FIELDS[Launcher]] != [int, str, str]:
            raise ValueError("it names a process that is none")


def _known(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in _FIELDS[kind] if name in data}


def _table(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in _FIELDS[type(value)]}
