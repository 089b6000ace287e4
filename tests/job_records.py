"""Job records in any state, without the jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from nemo_runspec.paths import private_dir
from nemo_runspec.records import JobRecord, JobStore, Launcher, Transition
from nemo_runspec.records.codec import TYPED, to_json
from nemo_runspec.records.earlier import beside_handle
from nemo_runspec.records.facts import from_table
from nemo_runspec.records.process import this_process
from nemo_runspec.typed_json import read_any


def gone() -> Launcher:
    """A process of this machine that is no more."""
    return dataclasses.replace(this_process(), started="1")


def record(
    name: str, states: Sequence[str | tuple[str, str]] = ("planned",), *, age: float = 60, **values: Any
) -> JobRecord:
    """A record that was made `age` seconds ago and came into each further state a second later.

    Args:
        values: its fields. A `handle` may hold what earlier releases kept in it: `attempt`, `stopped_by`, `deadlines` …
            `facts` may be a table, as they are stored.
    """
    if values.get("handle"):
        handle, beside = beside_handle(values["handle"])
        typed = {key: read_any(TYPED[key], value, key) if key in TYPED else value for key, value in beside.items()}
        values = {**typed, **values, "handle": handle}
    if isinstance(values.get("facts"), Mapping):
        values["facts"] = from_table(values["facts"])
    began = datetime.now(timezone.utc) - timedelta(seconds=age)
    steps = [(step, "") if isinstance(step, str) else step for step in states]
    return JobRecord(
        **{
            "name": name,
            "recipe": "nano3/pretrain",
            "config": "tiny",
            "profile": None,
            "executor": "local",
            "mode": "run",
            "argv": ("nemotron", "nano3", "pretrain"),
            "cwd": "/work",
            "user": "me",
            "host": "here",
            "commit": None,
            "states": tuple(
                Transition(state, (began + timedelta(seconds=n)).isoformat(timespec="milliseconds"), reason)
                for n, (state, reason) in enumerate(steps)
            ),
            **values,
        }
    )


def stored(store: JobStore, made: JobRecord, log: bytes | None = None) -> JobRecord:
    """Puts a record into the store as a job of an earlier time; returns it."""
    folder = store.folder(made.name)
    private_dir(folder)
    (folder / "record.json").write_text(to_json(made), encoding="utf-8", errors="surrogateescape")
    if log is not None:
        (folder / "logs").mkdir(exist_ok=True)
        (folder / "logs" / "job.log").write_bytes(log)
    return made


def copies(store: JobStore, one: JobRecord, handles: Sequence[Mapping[str, Any]]) -> list[str]:
    """Puts jobs that are like one into the store, with handles of their own; their names."""
    names = [f"many-1123-{number:08x}" for number in range(len(handles))]
    for name, handle in zip(names, handles, strict=True):
        stored(store, dataclasses.replace(one, name=name, handle={**one.handle, **handle}))
    return names
