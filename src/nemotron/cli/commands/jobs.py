"""`nemotron jobs list | show`: what has run, from any directory."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from nemotron.cli.click import Command, Context
from nemotron.cli.commands.build import argument, command, group, option
from nemotron.cli.text import clean, paint, table

if TYPE_CHECKING:
    from nemo_runspec.jobs import JobRecord, JobStore, Unreadable

_COLOURS = {"succeeded": "green", "failed": "red", "lost": "red", "cancelled": "yellow", "running": "cyan"}


def make(help_text: str) -> Command:
    """The group."""
    as_json = option("--json", "Machine-readable output.")
    job = argument("job", "A job's name, the beginning of it, or 'last'.", complete=_complete)
    return group(
        "jobs",
        help_text,
        command("list", "Every job, the newest first.", _list, as_json),
        command("show", "One job: states with times, cause of failure, where its files lie.", _show, job, as_json),
    )


def _store() -> JobStore:
    from nemo_runspec.jobs import JobStore

    return JobStore()


def _list(as_json: bool) -> int:
    records = _store().list()
    if as_json:
        print(json.dumps([_as_json(record) for record in records], indent=2, ensure_ascii=False))
        return 0
    if not records:
        print("No jobs yet.")
        return 0
    rows = [("JOB", "STATE", "EXIT", "STARTED", "TIME", "WHERE"), *(_row(record) for record in records)]
    lines = table(rows, indent="")
    for line, record in zip(lines, [None, *records], strict=True):
        print(paint(line, "bold") if record is None else _coloured(line, record.state))
    return 0


def _row(record: JobRecord | Unreadable) -> tuple[str, ...]:
    from nemo_runspec.jobs import Unreadable

    if isinstance(record, Unreadable):
        return (record.name, "unreadable", "", _local(record.created), "", clean(record.problem))
    code = "" if record.exit_code is None else str(record.exit_code)
    where = f"{record.profile} ({record.executor})" if record.profile else record.executor
    return (record.name, record.state, code, _local(record.created), _seconds(record.elapsed), where)


def _show(job: str, as_json: bool) -> int:
    store = _store()
    record = store.get(job)
    if as_json:
        print(json.dumps(_as_json(record), indent=2, ensure_ascii=False))
        return 0
    config = f", config {record.config}" if record.config else ""
    where = f"profile {record.profile}" if record.profile else "this machine"
    print(paint(record.name, "bold"))
    rows = [
        ("recipe", f"{record.recipe}{config}"),
        ("where", f"{where} ({record.executor}, {record.mode}), from {record.user}@{record.host}:{record.cwd}"),
        ("command", " ".join(record.argv)),
        ("commit", record.commit or "none"),
        ("exit code", "none" if record.exit_code is None else str(record.exit_code)),
        ("cause", record.cause or record.reason),
        ("time", _seconds(record.elapsed)),
        ("files", str(store.folder(record.name))),
        *((f"output {name}", path) for name, path in record.outputs.items()),
    ]
    print("\n".join(table((k, clean(v)) for k, v in rows if v)))
    print("states")
    print("\n".join(table((s.state, _local(s.time), clean(s.reason)) for s in record.states)))
    return 0


def _as_json(record: JobRecord | Unreadable) -> dict[str, Any]:
    return {**asdict(record), "state": record.state, "created": record.created}


def _coloured(line: str, state: str) -> str:
    return line.replace(state, paint(state, _COLOURS[state]), 1) if state in _COLOURS else line


def _local(time: str) -> str:
    """A stored time in the terminal's own zone, to the second."""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M:%S") if time else ""


def _seconds(elapsed: float | None) -> str:
    if elapsed is None:
        return ""
    if elapsed < 60:
        return f"{elapsed:.1f} s"
    minutes, seconds = divmod(round(elapsed), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _complete(_ctx: Context, _param: object, incomplete: str) -> list[str]:
    return [name for name in ("last", *(r.name for r in _store().list())) if name.startswith(incomplete)]
