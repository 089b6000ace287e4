"""Ends jobs of other machines: asked first, then ended; and takes away what is left of one that is over."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.provider import Provider
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.polling import Backoff, TimeLimit
from nemo_runspec.processes import user_name
from nemo_runspec.records import JobEnded, JobRecord, JobStore
from nemo_runspec.records.lifecycle import Cancellation
from nemo_runspec.remote.input_jobs import unneeded
from nemo_runspec.remote.log_rescue import rescue_logs, rescue_logs_for
from nemo_runspec.remote.refresh import refresh
from nemo_runspec.remote.stop_requests import stop_each
from nemo_runspec.remote.unconfirmed import confirmed_status, id_in

_SHORTEST, _LONGEST = 0.5, 5.0
"""Seconds between two looks at jobs that were asked to stop."""

_AFTER_HARD = 60.0
"""Seconds that a platform has to end what it was told to end."""


def cancel(
    store: JobStore,
    records: Sequence[JobRecord],
    *,
    grace: float,
    say: Say,
    by: str = "",
    sleep: Callable[[float], None] = time.sleep,
) -> list[JobRecord]:
    """Asks jobs to stop, gives them `grace` seconds, ends what is left; the records as they are then.

    Jobs of one machine are asked together. What was asked for stays asked for, whatever breaks meanwhile.

    Raises:
        UserError: a platform does not answer, or refuses.
    """
    wanted = by or f"nemotron jobs cancel ({user_name()})"
    now = [record for record, _ in refresh(store, records)]
    now = [_before_submission(store, record, wanted) for record in now]
    stop_all(now, wanted, hard=grace <= 0, store=store)
    now = _wait(store, now, grace, sleep)
    left = [record for record in now if not record.over]
    if left and grace > 0:
        say(f"{', '.join(record.name for record in left[:5])}: not ended within {grace:g} s; ending without asking")
        stop_all(left, wanted, hard=True, store=store)
    return _wait(store, now, _AFTER_HARD, sleep)


def until_over(store: JobStore, records: Sequence[JobRecord]) -> list[JobRecord]:
    """The records of jobs that are being ended, once they are over or a minute has passed. Raises as `cancel`."""
    return _wait(store, records, _AFTER_HARD, time.sleep)


def end_now(store: JobStore, record: JobRecord, by: str) -> JobRecord:
    """Ends a job whose submission was interrupted: it is looked for by its name first.

    Raises:
        UserError: it cannot be known, or ended.
    """
    provider = get_backend(record.executor).load_provider()
    seen = confirmed_status(provider, [record])[0]
    if seen.gone:
        ended = _write_cancelled(store, record, by)
        provider.delete_files(record.handle)
        return ended
    known: dict[str, Any] = {"handle": {"id": id_in(seen)}, "sent": None, "cancellation": Cancellation(by)}
    found = store.transition(record, "queued", facts=seen.facts, **known)
    provider.stop([found.handle], by, hard=True)
    return _wait(store, [found], _AFTER_HARD, time.sleep)[0]


def end_makers(store: JobStore, makers: Sequence[str], ending: Sequence[str], by: str, say: Say) -> None:
    """Ends jobs that were submitted only to make inputs of jobs that are ended, or will not be submitted.

    Args:
        makers: names of jobs; one that others need, that is over, or that its user submitted himself is left.
        ending: names of the jobs that they make inputs for.

    Raises:
        UserError: as `stop_all`.
    """
    left = unneeded(store, makers, ending)
    stop_all(left, by, hard=True, store=store)
    for maker in left:
        say(f"{maker.name} only makes an input for what is ended: it is ended too")


def stop_all(records: Sequence[JobRecord], by: str, *, hard: bool, store: JobStore | None = None) -> None:
    """Asks jobs that are not over to stop, or ends them: one round trip per machine that refuses none.

    Who wanted it is in their records first (`Cancellation`): no job is submitted again after that. What
    there is of logs that may go with the jobs is fetched before, as far as it can be.

    Raises:
        UserError: a platform does not answer, or refuses to stop a job, whose record is as before then. All others are
            asked all the same.
    """
    store = store or JobStore()
    groups: dict[tuple[str, str], list[JobRecord]] = {}
    for record in records:
        if not record.over and record.submitted:
            wished = _wished(store, record, by)
            provider = get_backend(record.executor).load_provider()
            groups.setdefault((record.executor, provider.endpoint(record.handle)), []).append(wished)
    rescue_logs(store, [record for some in groups.values() for record in some], _provider_of)
    problems: list[tuple[JobRecord, UserError]] = []
    for (executor, _), some in groups.items():
        found = stop_each(get_backend(executor).load_provider(), [record.handle for record in some], by, hard=hard)
        problems += [(record, error) for record, error in zip(some, found, strict=True) if error is not None]
    _take_back(store, [record for record, error in problems if not error.transient], by)
    if problems:
        raise _named(problems, sum(map(len, groups.values())))


def clear(record: JobRecord) -> None:
    """Removes what a job that is over left on its machine. Raises `UserError` where it cannot."""
    get_backend(record.executor).load_provider().delete_files(record.handle)


def _provider_of(record: JobRecord) -> Provider:
    return get_backend(record.executor).load_provider()


def _wished(store: JobStore, record: JobRecord, by: str) -> JobRecord:
    """The job as it is now, with the wish to stop it; the first who wished it stays named."""
    with suppress(UserError):
        record = store.by_name(record.name)
    if record.stopped_by:
        return record
    with suppress(OSError):
        return store.note(record, cancellation=Cancellation(by))
    return dataclasses.replace(record, cancellation=Cancellation(by))


def _take_back(store: JobStore, records: Sequence[JobRecord], by: str) -> None:
    for record in records:
        if record.stopped_by == by:
            with suppress(OSError):
                store.note(record, cancellation=None)


def _named(problems: Sequence[tuple[JobRecord, UserError]], of: int) -> UserError:
    """The first problem, with the names of the jobs that have one where others have none. `of`: how many there are."""
    error = problems[0][1]
    if len(problems) < of:
        names = ", ".join(record.name for record, _ in problems[:5])
        error.what = f"{names}: not stopped: {error.what}"
        error.args = (error.what,)
    return error


def _before_submission(store: JobStore, record: JobRecord, by: str) -> JobRecord:
    """A job that was only staged has nothing to be stopped."""
    if record.over or record.submitted or not record.staged:
        return record
    return _write_cancelled(store, record, by)


def _write_cancelled(store: JobStore, record: JobRecord, by: str) -> JobRecord:
    cause = f"cancelled by {by} before it was submitted"
    if record.sent is not None:
        cause = f"cancelled by {by} while it was being submitted; {record.name} is not there, and might still turn up"
    try:
        return store.finish(record, "cancelled", exit_code=143, cause=cause)
    except JobEnded as error:
        return error.record


def _wait(
    store: JobStore, records: Sequence[JobRecord], seconds: float, sleep: Callable[[float], None]
) -> list[JobRecord]:
    """The records once all are over, or the time is up."""
    limit, pauses = TimeLimit(seconds), Backoff(_SHORTEST, _LONGEST)
    now = list(records)
    while not all(record.over for record in now):
        try:
            now = [record for record, _ in refresh(store, now)]
        except UserError as error:
            if not error.transient or limit.passed:
                raise
        if all(record.over for record in now) or limit.passed:
            break
        rescue_logs_for(store, now, _provider_of, min(pauses.pause(), max(0.05, limit.left or 0.0)), sleep)
    return now
