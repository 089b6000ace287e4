"""What is known of one job: its record, its states, and how it is written down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from typing import Any

RECORD_SCHEMA = 1

_NONE = type(None)
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("name", "recipe", "executor", "mode", "cwd", "user", "host", "cause"), (str,)),
    **dict.fromkeys(("config", "profile", "commit"), (str, _NONE)),
    **dict.fromkeys(("exit_code", "signal"), (int, _NONE)),
    "elapsed": (int, float, _NONE),
    "outputs": (dict,),
}
"""What a stored record's fields may be, so that whoever shows them need not ask."""


@dataclass(frozen=True, slots=True)
class State:
    """One state a job may be in. `final`: it has ended; `then`: the states that may follow."""

    final: bool
    then: tuple[str, ...] = ()


_ENDS = ("succeeded", "failed", "cancelled", "lost", "unknown")

STATES: Mapping[str, State] = {
    "planned": State(False, ("submitting", "queued", "starting", "running", *_ENDS)),
    "submitting": State(False, ("queued", "starting", "running", *_ENDS)),
    "queued": State(False, ("starting", "running", *_ENDS)),
    "starting": State(False, ("queued", "running", *_ENDS)),
    "running": State(False, ("queued", *_ENDS)),
    "succeeded": State(True),
    "failed": State(True),
    "cancelled": State(True),
    "lost": State(False, ("running", "succeeded", "failed", "cancelled", "unknown")),
    "unknown": State(False, ("queued", "running", "succeeded", "failed", "cancelled", "lost")),
}
"""`lost`: what watched over it is gone and it left no exit marker. `unknown`: it cannot be known from here."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A state, when it began (UTC, ISO 8601), and why."""

    state: str
    time: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Launcher:
    """The process that watches over an attached job.

    Args:
        pid: its process id; `started`: when it started, as the kernel says it, so that another process with the same
            id is not taken for it.
        machine: boot and process namespace the id is valid in.
    """

    pid: int
    started: str
    machine: str


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job.

    Args:
        argv: the command line, redacted. `cwd`, `user`, `host`: where it was typed.
        commit: of the code package, None without one.
        states: oldest first; the last is the job's state.
        elapsed: seconds from `running` to the end, None before.
        signal: number of the signal that ended it. `cause`: why it failed, in words.
        outputs: name → path of what it produced.
        launcher: None for a job that nobody watches over from here.
        process: the job script's own process, for a job of this machine.
    """

    name: str
    recipe: str
    config: str | None
    profile: str | None
    executor: str
    mode: str
    argv: tuple[str, ...]
    cwd: str
    user: str
    host: str
    commit: str | None
    states: tuple[Transition, ...]
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""
    elapsed: float | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    launcher: Launcher | None = None
    process: Launcher | None = None
    schema: int = RECORD_SCHEMA

    @property
    def state(self) -> str:
        """The state it is in."""
        return self.states[-1].state

    @property
    def reason(self) -> str:
        """Why it is in that state, if more is known than the state."""
        return self.states[-1].reason

    @property
    def created(self) -> str:
        """When it was recorded, UTC, ISO 8601."""
        return self.states[0].time

    @property
    def ended(self) -> bool:
        """True once nothing more will happen to it."""
        return STATES[self.state].final

    def when(self, state: str) -> datetime | None:
        """When it last came into a state, None if it never did."""
        times = [t.time for t in self.states if t.state == state]
        return datetime.fromisoformat(times[-1]) if times else None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A job whose record cannot be read, and why."""

    name: str
    problem: str
    created: str = ""
    state: str = "unknown"


def now() -> str:
    """This moment, UTC, ISO 8601 with milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def to_json(record: JobRecord) -> str:
    """The record as it is stored."""
    return json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> JobRecord:
    """A stored record. Keys a later version added are left out.

    Raises:
        ValueError: not a record, or one of a later schema.
    """
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("not a job record") from None
    if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
        raise ValueError("not a job record")
    if data["schema"] > RECORD_SCHEMA:
        raise ValueError(f"written by a later version (schema {data['schema']})")
    try:
        values: dict[str, Any] = _known(JobRecord, data)
        values["argv"] = tuple(data["argv"])
        values["states"] = tuple(_transition(t) for t in data["states"])
        for key in ("launcher", "process"):
            values[key] = Launcher(**_known(Launcher, data[key])) if data.get(key) else None
        record = JobRecord(**values)
        _check(record)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"not a whole job record ({type(error).__name__}: {error})") from None
    return record


def _transition(data: Mapping[str, Any]) -> Transition:
    step = Transition(**_known(Transition, data))
    if step.state not in STATES:
        raise ValueError(f"unknown state {step.state!r}")
    try:
        known = datetime.fromisoformat(step.time).tzinfo is not None
    except (TypeError, ValueError):
        known = False
    if not known:
        raise ValueError(f"not a time with its offset from UTC: {step.time!r}")
    return step


def _check(record: JobRecord) -> None:
    if not record.states:
        raise ValueError("a job without a state")
    for name, kinds in _TYPES.items():
        value = getattr(record, name)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise ValueError(f"{name} cannot be {value!r}")


def _known(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    names = {f.name for f in fields(kind)}
    return {key: value for key, value in data.items() if key in names}
