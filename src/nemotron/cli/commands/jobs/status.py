"""`nemotron jobs status`: asks the platforms how jobs are, one question per machine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from nemotron.cli.commands.jobs.looks import as_json as to_json
from nemotron.cli.commands.jobs.looks import one_line, print_json, print_table, took
from nemotron.cli.commands.jobs.say import said_when_slow, say

if TYPE_CHECKING:
    from nemo_runspec.jobs import JobRecord, JobStore
    from nemo_runspec.remote.provider import Seen

_HEAD = ("JOB", "STATE", "ID", "TIME", "NODES", "REMARK")
_SPARE = ("NODES", "ID")


def call(jobs: Sequence[str], as_json: bool) -> int:
    """Prints how the named jobs are now; without names all that are not over."""
    from nemo_runspec.jobs import JobStore
    from nemo_runspec.remote.refresh import refresh

    store = JobStore()
    meant = _meant(store, jobs)
    with said_when_slow(record for record in meant if not record.over):
        found = refresh(store, meant, places=True, trouble=_say_trouble)
    if as_json:
        print_json([to_json(record) for record, _ in found])
        return 0
    if not found:
        print("No job is under way.")
        return 0
    print_table(_HEAD, [_row(record, seen) for record, seen in found], [record.state for record, _ in found], _SPARE)
    return 0


def _meant(store: JobStore, words: Sequence[str]) -> list[JobRecord]:
    from nemo_runspec.jobs import JobRecord
    from nemo_runspec.sweeps.overview import Overview

    overview = Overview(store)
    if words:
        return [store.by_name(entry.name) for entry in overview.with_members(overview.meant(words))]
    open_ones = (store.read(entry) for entry in store.entries() if not entry.over)
    return [record for record in open_ones if isinstance(record, JobRecord)]


def _say_trouble(text: str) -> None:
    say(f"{text}; of its jobs this is what was last known")


def _row(record: JobRecord, seen: Seen | None) -> tuple[str, ...]:
    facts: dict[str, Any] = {**record.facts, **(seen.facts if seen else {})}
    code = f" {record.exit_code}" if record.state == "failed" and record.exit_code is not None else ""
    remark = "; ".join(filter(None, (_place(facts, record.state), _why(record, facts), _unknown(record, facts))))
    return (
        record.name,
        record.state + code,
        str(facts.get("id", "")),
        took(record),
        str(facts.get("nodes", "")),
        one_line(remark),
    )


def _why(record: JobRecord, facts: dict[str, Any]) -> str:
    """Why it failed, or waits: whether for too long, how many of its replicas do not any more, what for."""
    why = str(record.diagnosis.get("what") or record.reason or record.cause)
    if record.over or record.state == "running":
        return why
    waiting = (facts.get("overdue"), facts.get("replicas"), facts.get("waiting") or why)
    return "; ".join(str(text) for text in waiting if text)


def _unknown(record: JobRecord, facts: dict[str, Any]) -> str:
    """What its platform did not tell of it, and whether its exit code is still to come."""
    code = "exit code not known yet" if record.unread and record.exit_code is None else ""
    return "; ".join(filter(None, (code, str(facts.get("unanswered") or ""))))


def _place(facts: dict[str, Any], state: str) -> str:
    if state != "queued":
        attempt = facts.get("attempt") or 0
        return f"attempt {attempt + 1}" if attempt else ""
    place = f"position {facts['position']}" if facts.get("position") else ""
    where = f"in {facts['partition']}" if place and facts.get("partition") else ""
    start = facts.get("estimated")
    when = f"estimated start {datetime.fromtimestamp(start).astimezone():%b %d %H:%M}" if start else ""
    return ", ".join(filter(None, (" ".join(filter(None, (place, where))), when)))
