"""`nemotron jobs events | replicas | diagnose`: what a platform knows about a job beyond its state and its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from nemo_runspec.diagnosis.display import platform_of, rows_of
from nemo_runspec.errors import UserError
from nemo_runspec.records.record import code_and_why
from nemo_runspec.text import one_line
from nemotron.cli.commands.jobs.messages import said_when_slow
from nemotron.cli.forms import print_json
from nemotron.cli.job_formatting import coloured, print_table
from nemotron.cli.text import short_moment, table

if TYPE_CHECKING:
    from nemo_runspec.backends.provider import Event, Provider, Replica
    from nemo_runspec.records import JobRecord, JobStore
    from nemo_runspec.records.status import JobStatus

_EVENTS = ("TIME", "KIND", "REASON", "TIMES", "ABOUT", "MESSAGE")
_REPLICAS = ("NODE RANK", "STATE", "MACHINE", "CPUS", "MEMORY", "REPLICA", "REMARK")

_OTHERWISE: Mapping[str, str] = {
    "events": "what the platform has written about it: nemotron jobs logs --platform {name}",
    "replicas": "where it runs: nemotron jobs status {name}",
}
"""Where the same is to be had for a job whose platform has no such thing."""

_LABEL = len("what to do")
_VERDICT = ("kind", "what", "evidence", "remedy")


def events(job: str, as_json: bool) -> int:
    """Prints what the platform has written down about a job, the oldest first."""
    from nemo_runspec.backends.capabilities import ListsEvents

    _, record = _asked(job)
    with said_when_slow([record]):
        provider = _provider(record)
        if not isinstance(provider, ListsEvents):
            raise _incapable(record, "events")
        found = provider.events(record.handle)
    if as_json:
        print_json([asdict(event) for event in found])
        return 0
    if not found:
        print(f"{record.name}: its platform has written nothing about it")
        return 0
    print_table(_EVENTS, [_event_row(event) for event in found], [event.kind for event in found], ("ABOUT", "TIMES"))
    return 0


def replicas(job: str, as_json: bool) -> int:
    """Prints the pods of a job."""
    from nemo_runspec.backends.capabilities import ListsReplicas

    _, record = _asked(job)
    with said_when_slow([record]):
        provider = _provider(record)
        if not isinstance(provider, ListsReplicas):
            raise _incapable(record, "replicas")
        found = provider.replicas(record.handle)
    if as_json:
        print_json([asdict(replica) for replica in found])
        return 0
    if not found:
        print(f"{record.name}: it is {record.state} and has no replicas")
        return 0
    print_table(
        _REPLICAS, [_replica_row(each) for each in found], [each.state for each in found], ("REPLICA", "MEMORY", "CPUS")
    )
    return 0


def diagnose(job: str, as_json: bool) -> int:
    """Prints why a job has failed, or does not start."""
    from nemo_runspec.remote.explain import explain
    from nemo_runspec.remote.refresh import refresh

    store, record = _asked(job)
    with said_when_slow([record]):
        record, seen = refresh(store, [record])[0]
        verdict = explain(store, record, seen)
    if as_json:
        print_json(_as_json(record, verdict, seen))
        return 0
    print(_headline(record))
    rows = [("kind", str(verdict.get("kind") or "not known")), *rows_of(verdict)] if any(verdict.values()) else []
    rows = rows or [("diagnosis", _nothing(record, seen))]
    print("\n".join(table((label.ljust(_LABEL), one_line(text)) for label, text in rows)))
    return 0


def _asked(job: str) -> tuple[JobStore, JobRecord]:
    from nemo_runspec.records import JobStore
    from nemo_runspec.sweeps.overview import find_job

    store = JobStore()
    return store, find_job(store, job)


def _provider(record: JobRecord) -> Provider | None:
    """The platform of a job, None for a job of this machine."""
    from nemo_runspec.backends import get_backend

    return get_backend(record.executor).load_provider() if record.handle else None


def _incapable(record: JobRecord, errand: str) -> UserError:
    """That a job's platform has no such thing, and where the same is to be had."""
    remedy = _OTHERWISE[errand] if record.handle else "what it printed: nemotron jobs logs {name}"
    return UserError(
        f"job '{record.name}' runs with executor '{record.executor}', which knows no {errand}",
        remedy=remedy.format(name=record.name),
    )


def _as_json(record: JobRecord, verdict: Mapping[str, Any], seen: JobStatus | None) -> dict[str, Any]:
    facts = record.facts.updated(seen.facts) if seen else record.facts
    told = {key: str(verdict.get(key) or "") for key in _VERDICT}
    theirs = {key: value for key, value in platform_of(verdict).items() if key != "name"}
    waits = {"waiting": facts.waiting, "overdue": facts.overdue, "replicas": facts.replicas, "nodes": facts.nodes}
    known = {key: text for key, text in waits.items() if text}
    why = record.reason or record.cause
    return {
        "name": record.name,
        "state": record.state,
        "reason": why,
        "exit_code": record.exit_code,
        **told,
        **theirs,
        **known,
    }


def _headline(record: JobRecord) -> str:
    rest = one_line(code_and_why(record.exit_code if record.over else None, record.reason or record.cause))
    return f"{record.name}: {coloured(record.state, record.state)}{rest}"


def _nothing(record: JobRecord, seen: JobStatus | None) -> str:
    facts = record.facts.updated(seen.facts) if seen else record.facts
    if record.over and record.state != "succeeded":
        return f"nothing more is known; the end of its log: nemotron jobs logs --tail 50 {record.name}"
    waiting = "; ".join(filter(None, (facts.overdue, facts.replicas, facts.waiting)))
    return f"nothing is wrong{f': {waiting}' if waiting and not record.over else ''}"


def _event_row(event: Event) -> tuple[str, ...]:
    when = "" if event.time is None else short_moment(datetime.fromtimestamp(event.time))
    return (
        when,
        event.kind,
        one_line(event.reason),
        str(event.count) if event.count > 1 else "",
        one_line(event.about),
        one_line(event.message),
    )


def _replica_row(replica: Replica) -> tuple[str, ...]:
    rank = "" if replica.index is None else str(replica.index)
    remark = ": ".join(filter(None, (replica.problem, replica.message)))
    cpus = "" if replica.cpus is None else f"{replica.cpus:g}"
    memory = "" if replica.memory_mb is None else f"{replica.memory_mb / 1024:.4g} GB"
    return (rank, replica.state or "-", replica.node, cpus, memory, replica.id, one_line(remark))
