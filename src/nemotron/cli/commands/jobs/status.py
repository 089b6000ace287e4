"""`nemotron jobs status`: asks the platforms how jobs are, one question per machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from nemo_runspec.errors import UserError
from nemo_runspec.text import one_line
from nemotron.cli.commands.jobs.messages import said_when_slow, say
from nemotron.cli.commands.jobs.output import facts_of, ordered, print_rows
from nemotron.cli.commands.jobs.selector import Conditions, words_of
from nemotron.cli.commands.jobs.watch import Look
from nemotron.cli.commands.jobs.watch import watch as watch_until_over
from nemotron.cli.forms import CSV, JSON, TABLE, WIDE, json_text
from nemotron.cli.job_formatting import ago, local_time, print_table, progress_said, table_lines, took
from nemotron.cli.job_formatting import as_json as to_json

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord, JobStore
    from nemo_runspec.records.facts import JobFacts
    from nemo_runspec.records.index import Entry
    from nemo_runspec.records.status import JobStatus
    from nemo_runspec.remote.observed import PolledJob
    from nemo_runspec.remote.refresh import Trouble

_HEAD = ("JOB", "STATE", "ID", "TIME", "NODES", "REMARK")
_SPARE = ("NODES", "ID")

NOT_ASKED = 3
"""Exit code where no platform could be asked about any of the jobs: what is shown is what was last known."""

_ASKED_FOR = 86400.0
"""Seconds for which a job that is lost, or has ended unread, is asked about without being named."""


@dataclass(frozen=True, slots=True)
class Stale:
    """Why what is shown of a job is not what it is now. `since`: when it was last known to be so, '' for never."""

    since: str
    why: str

    def said(self) -> str:
        """In words, as the beginning of a remark."""
        when = f"as of {local_time(self.since)}" if self.since else "as it was submitted"
        return f"{when}, not asked now: {self.why}"

    def marked(self) -> str:
        """Behind the state: that it is not of now, and how old it is."""
        return f" ({', '.join(filter(None, ('stale', ago(self.since))))})"


def call(jobs: Sequence[str], wanted: Conditions, watch: bool, sort: str | None, form: str) -> int:
    """Prints how the named jobs are now; without names all that are not over, and those that were lost lately, or have
    ended lately and could not be read to the end.

    Returns: `NOT_ASKED` where nobody could be asked about any of them; what `watching.watch` returns.
    """
    from nemo_runspec.records import JobStore

    store = JobStore()
    if watch:
        return _watch(store, jobs, wanted, form)
    meant = _meant(store, jobs, wanted)
    with said_when_slow(record for record in meant if not record.ended):
        found, stale = _asked(store, meant, lambda text: say(f"{text}; of its jobs this is what was last known"))
    _print(store, found, stale, sort, form)
    return NOT_ASKED if stale and not any(seen for _, seen in found) else 0


_NONE = "No job is under way."


def _print(
    store: JobStore, found: Sequence[PolledJob], stale: Mapping[str, Stale], sort: str | None, form: str
) -> None:
    facts: Sequence[Mapping[str, Any]] = []
    if sort or form in (WIDE, CSV):
        gpus = form in (WIDE, CSV) or "gpu" in (sort or "")
        facts = ordered((facts_of(record, store, gpus=gpus) for record, _ in found), sort)
        by_name = {record.name: (record, seen) for record, seen in found}
        found = [by_name[row["name"]] for row in facts]
    if not found and form in (TABLE, WIDE):
        print(_NONE)
    elif form == TABLE:
        rows = [_row(store, record, seen, stale.get(record.name)) for record, seen in found]
        print_table(_HEAD, rows, [record.state for record, _ in found], _SPARE)
    else:
        print_rows(facts, form, lambda: [_json_of(store, record, stale.get(record.name)) for record, _ in found])


def _json_of(store: JobStore, record: JobRecord, stale: Stale | None) -> dict[str, Any]:
    known = to_json(record, store.folder(record.name))
    return {**known, "stale": {"since": stale.since or None, "why": stale.why} if stale else None}


def _watch(store: JobStore, words: Sequence[str], wanted: Conditions, form: str) -> int:
    """The same again and again. Who names no job means those that go on now; a sweep's jobs may become more."""
    if form not in (TABLE, JSON):
        raise UserError(f"--watch shows a table, or lines of JSON, and no {form}", remedy="leave one of them out")
    names = [] if words or not wanted.empty else [record.name for record in _meant(store, words, wanted)]
    if not (names or words) and wanted.empty:
        say(_NONE)
        return 0

    def look() -> Look:
        troubles: list[str] = []
        if words or not wanted.empty:
            meant, more = _meant(store, words, wanted), _sweeps_go_on(store, words, wanted)
        else:
            meant, more = [settled(store, name) for name in names], False
        found, stale = _asked(store, meant, troubles.append)
        rows = [_row(store, record, seen, stale.get(record.name)) for record, seen in found]
        records = [record for record, _ in found]
        drawn = table_lines(_HEAD, rows, [record.state for record in records], _SPARE)
        return Look(records, drawn, more or not all(record.over for record in records), troubles)

    from nemo_runspec.records.settle import settled

    return watch_until_over(look, (lambda record: json_text(_json_of(store, record, None))) if form == JSON else None)


def _sweeps_go_on(store: JobStore, words: Sequence[str], wanted: Conditions) -> bool:
    from nemo_runspec.sweeps.overview import Overview

    overview = Overview(store)
    meant = overview.meant(words_of(overview, words, wanted, "status"))
    return any(entry.is_sweep and not entry.over for entry in meant)


def _asked(
    store: JobStore, meant: Sequence[JobRecord], told: Callable[[str], object]
) -> tuple[Sequence[PolledJob], dict[str, Stale]]:
    """How the jobs are now, and of which that could not be asked."""
    from nemo_runspec.records.last_poll import known_since
    from nemo_runspec.remote.refresh import refresh
    from nemo_runspec.sweeps.settle import settle_those_of
    from nemo_runspec.sweeps.store import SweepStore

    stale: dict[str, Stale] = {}

    def trouble(text: str, unasked: Sequence[JobRecord]) -> None:
        told(text)
        open_ones = [each for each in unasked if not each.ended]  # how one has ended does not get old
        stale.update({each.name: Stale(known_since(each, store.folder(each.name)) or "", text) for each in open_ones})

    now = [_here(store, record, trouble) for record in meant]
    found = refresh(store, now, places=True, trouble=trouble)
    settle_those_of(SweepStore(), (record for record, _ in found))
    return found, stale


def _here(store: JobStore, record: JobRecord, trouble: Trouble) -> JobRecord:
    """A lost job of this machine, looked at again."""
    from nemo_runspec.records.lost import refresh_lost

    try:
        return refresh_lost(store, record)
    except UserError as error:
        trouble(error.what, [record])
        return record


def _meant(store: JobStore, words: Sequence[str], wanted: Conditions) -> list[JobRecord]:
    from nemo_runspec.records import JobRecord
    from nemo_runspec.records.settle import settle_all, settled
    from nemo_runspec.sweeps.overview import Overview

    if not words:
        settle_all(store)
    overview = Overview(store)
    if words or not wanted.empty:
        words = words_of(overview, words, wanted, "status")
        return [settled(store, entry.name) for entry in overview.with_members(overview.meant(words))]
    records = (store.read(entry) for entry in store.entries() if not entry.over or _is_in_doubt(entry))
    return [each for each in records if isinstance(each, JobRecord) and (not each.over or each.handle)]


def _is_in_doubt(entry: Entry) -> bool:
    if entry.state != "lost" and not entry.unread:
        return False
    return (datetime.now(timezone.utc) - datetime.fromisoformat(entry.changed)).total_seconds() < _ASKED_FOR


def _row(store: JobStore, record: JobRecord, seen: JobStatus | None, stale: Stale | None) -> tuple[str, ...]:
    facts = record.facts.updated(seen.facts) if seen else record.facts
    code = f" {record.exit_code}" if record.state == "failed" and record.exit_code is not None else ""
    how_far = progress_said(record, store.folder(record.name))
    told = (
        stale.said() if stale else "",
        how_far,
        _place(facts, record.state),
        _why(record, facts),
        _unknown(record, facts),
    )
    return (
        record.name,
        f"{record.state}{code}{stale.marked() if stale else ''}",
        facts.id,
        took(record, seen.facts.elapsed if seen else None),
        facts.nodes,
        one_line("; ".join(filter(None, told))),
    )


def _why(record: JobRecord, facts: JobFacts) -> str:
    """Why it failed, or waits: whether for too long, how many of its replicas do not any more, what for."""
    why = record.why
    if record.over or record.state == "running":
        return why
    waiting = (facts.overdue, facts.replicas, facts.waiting or why)
    return "; ".join(filter(None, waiting))


def _unknown(record: JobRecord, facts: JobFacts) -> str:
    """What its platform did not tell of it, and whether its exit code is still to come."""
    code = "exit code not known yet" if record.unread and record.exit_code is None else ""
    return "; ".join(filter(None, (code, facts.unanswered)))


def _place(facts: JobFacts, state: str) -> str:
    if state != "queued":
        return f"attempt {facts.attempt + 1}" if facts.attempt else ""
    place = f"position {facts.position}" if facts.position else ""
    where = f"in {facts.partition}" if place and facts.partition else ""
    start = facts.estimated
    when = f"estimated start {datetime.fromtimestamp(start).astimezone():%b %d %H:%M}" if start else ""
    return ", ".join(filter(None, (" ".join(filter(None, (place, where))), when)))
