"""Jobs ended, wherever they run, with those that only make inputs for them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.lost import refresh_lost
from nemo_runspec.remote.cancel import cancel as cancel_elsewhere
from nemo_runspec.remote.input_jobs import only_for, waits_for
from nemo_runspec.supervise.control import cancel as cancel_here

_AT_ONCE = 16
"""Jobs that are ended at the same time."""


def with_makers(store: JobStore, records: Sequence[JobRecord], say: Say) -> list[JobRecord]:
    """The jobs, and those that only make inputs for them. Jobs that read what they make are named: they never start."""
    makers = only_for(store, records)
    for maker in makers:
        say(f"{maker.name} only makes an input for what is ended: it is ended too")
    ending = [*records, *makers]
    for record in waits_for(store, (each for each in ending if not each.over)):
        if record.name not in {each.name for each in ending}:
            say(f"{record.name} waits for what is ended, and will not start: its platform ends it")
    return ending


def cancel_all(
    store: JobStore, records: Sequence[JobRecord], grace: float, by: str, say: Say
) -> list[JobRecord | UserError]:
    """Ends jobs, several at the same time; of each its record then, or what keeps it from being ended.

    Args:
        grace: seconds between asking a job to end and ending it.
        by: who wants that, as the end of `cancelled by …`.
    """
    remote = [record for record in records if record.handle and not record.ended]
    done = _cancel_remote(store, remote, grace, by, say) if remote else {}
    with ThreadPoolExecutor(min(_AT_ONCE, len(records) or 1)) as pool:
        return list(
            pool.map(lambda record: done.get(record.name) or _cancel_one(store, record, grace, by, say), records)
        )


def _cancel_remote(
    store: JobStore, records: Sequence[JobRecord], grace: float, by: str, say: Say
) -> dict[str, JobRecord | UserError]:
    """Jobs of other machines, those of one machine together."""
    try:
        return {record.name: record for record in cancel_elsewhere(store, records, grace=grace, say=say, by=by)}
    except UserError as error:
        return {record.name: error for record in records}


def _cancel_one(store: JobStore, record: JobRecord, grace: float, by: str, say: Say) -> JobRecord | UserError:
    try:
        record = refresh_lost(store, record)
        if record.over:
            return record
        return cancel_here(store, record, grace=grace, say=say, by=by)
    except UserError as error:
        return error
    except OSError as error:
        return UserError(f"job '{record.name}' cannot be ended: {error.strerror or error}", where=error.filename)
