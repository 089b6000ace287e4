"""Jobs that have ended and of which not all could be read then: the exit code, outputs, metrics. Read by a later look.

Such a record has `unread` among its facts: why. Its state stands, but that a success may turn out as the failure that
its own nodes tell of; the rest is written once the platform tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nemo_runspec.backends import get_backend
from nemo_runspec.errors import UserError
from nemo_runspec.jobs import JobRecord, JobStore
from nemo_runspec.jobs.record import is_over, now
from nemo_runspec.remote.deadlines import as_timed_out
from nemo_runspec.remote.provider import Rest, Seen
from nemo_runspec.remote.results import collected

Trouble = Callable[[str, Sequence[JobRecord]], object]


def read_again(store: JobStore, records: Sequence[JobRecord], trouble: Trouble | None = None) -> list[JobRecord]:
    """The records, in their order; those of which something was left to be read with what there is by now.

    Args:
        trouble: takes what keeps a platform from being asked; nothing is raised in any case.
    """
    return [_read(store, record, trouble) if record.unread else record for record in records]


def _read(store: JobStore, record: JobRecord, trouble: Trouble | None) -> JobRecord:
    provider = get_backend(record.executor).load_provider()
    try:
        [seen] = provider.look([record.handle])
        [rest] = provider.rest([record.handle], [seen]) if _is_end(seen) else [Rest()]
    except UserError as error:
        if trouble is not None:
            trouble(error.what, [record])
        return record
    return _corrected(store, record, seen, rest) if _is_end(seen) else record


def _is_end(seen: Seen) -> bool:
    """Whether the platform still has the job, and says how it ended."""
    return not seen.gone and is_over(seen.state) and seen.state != "lost"


def _corrected(store: JobStore, record: JobRecord, seen: Seen, rest: Rest) -> JobRecord:
    record, seen = as_timed_out(record, seen)
    unlike = seen.state != record.state and (record.state, seen.state) != ("succeeded", "failed")
    if unlike or seen.facts.get("unread"):
        return record
    facts = {**record.facts, "unread": None, "unanswered": None, **seen.facts, "asked": now()}
    return store.correct(record, seen.state, facts=facts, **collected(store, record, seen, rest))
