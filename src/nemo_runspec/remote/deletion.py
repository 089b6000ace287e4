"""Deletes cancelled jobs from the platforms that keep them, once their logs are here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.capabilities import KeepsJobs
from nemo_runspec.backends.provider import Provider
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.lifecycle import Cancellation
from nemo_runspec.remote.cancel import until_over
from nemo_runspec.remote.log_mirror import fetch_all


def delete_ended(
    store: JobStore, records: Sequence[JobRecord], say: Say
) -> tuple[dict[str, list[str]], list[UserError]]:
    """Deletes what platforms keep of jobs that were cancelled, once their logs are here whole: name → what, in words.

    So ends a job that its platform does not stop. What cannot be deleted stays, and is said. The jobs' records here
    stay in any case.

    Returns: with it, what keeps the rest from being deleted.
    """
    done = {record.name: _delete(store, record, say) for record in records if is_kept(record)}
    problems = [error for _, error in done.values() if error is not None]
    return {name: lines for name, (lines, _) in done.items()}, problems


def after_deletion(
    store: JobStore, records: Sequence[JobRecord], deleted: Mapping[str, Sequence[str]]
) -> list[JobRecord]:
    """The records, those of jobs that were deleted before they were over once they are."""
    ending = [record for record in records if not record.over and deleted.get(record.name)]
    now = {record.name: record for record in until_over(store, ending)}
    return [now.get(record.name, record) for record in records]


def is_kept(record: JobRecord) -> bool:
    """True for a cancelled job, or one that goes on although it was, on a platform that keeps something."""
    stopped = record.state == "cancelled" or (not record.over and bool(record.stopped_by))
    return record.submitted and stopped and isinstance(_provider(record), KeepsJobs)


def _delete(store: JobStore, record: JobRecord, say: Say) -> tuple[list[str], UserError | None]:
    """What was deleted, in words, and what keeps the rest from it."""
    provider = _provider(record)
    assert isinstance(provider, KeepsJobs), "asked for of such platforms alone"
    lines: list[str] = []
    try:
        fetch_all(provider, record.handle, store.folder(record.name))
        for handle in _attempts(record):
            gone = provider.delete_remote(handle)
            lines += gone
        if gone:  # the last attempt's: that it is not there is no doubt then
            store.note(record, cancellation=lambda now: Cancellation(now.stopped_by, deleted=True))
    except (UserError, OSError) as error:
        why = error.what if isinstance(error, UserError) else error.strerror
        what = f"{record.name}: what its platform keeps of it was not deleted{' whole' if lines else ''}: {why}"
        say(what)
        problem = UserError(what, remedy=f"try again: nemotron jobs cancel {record.name}")
        problem.transient = isinstance(error, UserError) and error.transient
        return lines, problem
    return lines, None


def _attempts(record: JobRecord) -> list[Mapping[str, Any]]:
    """How each attempt of a job is found, the last one being the job's own."""
    tried = record.attempt.tried if record.attempt else ()
    return [*(each.handle for each in tried), record.handle]


def _provider(record: JobRecord) -> Provider | None:
    """The platform of a job, None for a job of this machine."""
    return get_backend(record.executor).load_provider() if record.handle else None
