"""Steps of a job's record: which state may follow which, and what is kept with it. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

from nemo_runspec.records.record import STATES, JobRecord, Transition


class JobEnded(ValueError):
    """A change came too late: the job has ended. `record` says how."""

    def __init__(self, record: JobRecord, state: str) -> None:
        super().__init__(f"a job that is {record.state} cannot become {state}")
        self.record = record


def after(
    record: JobRecord, step: Transition, values: Mapping[str, Any], *, timed: bool = False, again: bool = False
) -> JobRecord:
    """The record once the job has come into a state.

    Args:
        values: further fields, as for `replaced`.
        timed: its time since it has been running is one of them.
        again: the state may be the one it is in; then only its reason is written anew.

    Raises:
        JobEnded: a `ValueError`; it ended before, and that stays as it is.
        ValueError: no state may be left for that one.
    """
    if record.ended:
        raise JobEnded(record, step.state)
    before = record.states
    if again and step.state == record.state:
        before, step = before[:-1], Transition(step.state, record.changed, step.reason)
    elif step.state not in STATES[record.state].then:
        raise ValueError(f"a job that is {record.state} cannot become {step.state}")
    known = {"elapsed": _elapsed(record), **values} if timed else values
    return replaced(record, {"states": (*before, step), **known})


def replaced(record: JobRecord, values: Mapping[str, Any]) -> JobRecord:
    """The record with other values. A `handle` is what changes in it alone, None for a key that goes.

    So several processes may each write down what they know of a job, and none undoes what another one wrote.
    """
    given = dict(values)
    if "handle" in given:
        joined = {**record.handle, **given["handle"]}
        gone = {key for key, value in given["handle"].items() if value is None}
        given["handle"] = {key: value for key, value in joined.items() if key not in gone}
    return dataclasses.replace(record, **given)


def corrected(record: JobRecord, state: str, values: Mapping[str, Any]) -> JobRecord:
    """The record of a job that has ended, with what was read of it since."""
    last = record.states[-1]
    known = {**values, "metrics": numbers(values.get("metrics") or {})}
    step = Transition(state, last.time, str(values.get("cause") or last.reason))
    return dataclasses.replace(record, states=(*record.states[:-1], step), **known)


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics that are numbers: a recipe may write anything, and the end of its job has to be written down."""
    found = {}
    for name, value in metrics.items():
        with suppress(TypeError, ValueError, OverflowError):
            found[str(name)] = float(value)
    return found


def _elapsed(record: JobRecord) -> float | None:
    began = record.running_since
    return (datetime.now(timezone.utc) - began).total_seconds() if began else None
