"""Jobs that have ended and of which not all could be read then: the exit code, outputs, metrics. Read by a later look.

Such a record has `unread` among its facts: why. Its state stands, but that a success may turn out as the failure that
its own nodes tell of; the rest is written once the platform tells it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nemo_runspec.backends.provider import Provider, Results
from nemo_runspec.errors import UserError
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.record import is_over, now
from nemo_runspec.records.status import JobStatus
from nemo_runspec.remote.deadlines import as_timed_out
from nemo_runspec.remote.observed import ObservedJob, PolledJob
from nemo_runspec.remote.results import collected


def read_again(store: JobStore, provider: Provider, pairs: Sequence[ObservedJob]) -> dict[str, PolledJob]:
    """Such jobs, and what their platform has just said of them, by name: with what there is to be read by now.

    Where what is left of them cannot be fetched now they stay as they are; the next look tries again.
    """
    ended = [pair for pair in pairs if _is_end(pair[1])]
    try:
        rests = provider.collect([record.handle for record, _ in ended], [seen for _, seen in ended]) if ended else []
    except UserError:
        rests, ended = [], []
    read: dict[str, PolledJob] = {
        record.name: (_corrected(store, record, seen, rest), seen)
        for (record, seen), rest in zip(ended, rests, strict=True)
    }
    return {**{record.name: (record, seen) for record, seen in pairs}, **read}


def _is_end(seen: JobStatus) -> bool:
    """True if the platform still has the job, and says how it ended."""
    return not seen.gone and is_over(seen.state) and seen.state != "lost"


def _corrected(store: JobStore, record: JobRecord, seen: JobStatus, rest: Results) -> JobRecord:
    record, seen = as_timed_out(record, seen)
    unlike = seen.state != record.state and (record.state, seen.state) != ("succeeded", "failed")
    if unlike or seen.facts.unread:
        return record
    facts = replace(replace(record.facts, unread="", unanswered="").updated(seen.facts), asked=now())
    return store.correct(record, seen.state, facts=facts, **collected(store, record, seen, rest))
