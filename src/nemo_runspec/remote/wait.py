"""Waits until jobs are over, and says with which exit code that ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nemo_runspec.errors import UserError
from nemo_runspec.polling import Backoff, TimeLimit
from nemo_runspec.records.record import JobRecord
from nemo_runspec.records.settle import settled
from nemo_runspec.records.store import JobStore

_SHORTEST, _LONGEST = 0.02, 1.0
"""Seconds between two looks, at first and at last."""

_REMOTE, _LONGEST_REMOTE = 0.5, 20.0
"""The same where a platform is asked."""


def wait_for(
    store: JobStore,
    names: Iterable[str],
    *,
    seconds: float | None = None,
    seen: Callable[[JobRecord], object] = lambda record: None,
    trouble: Callable[[str], object] = lambda text: None,
) -> list[JobRecord]:
    """The records of the jobs, in their order, once all are over or the time is up; some are not over then.

    A job that is lost is asked about once: it may be there. One that cannot be asked stays as it is on record.

    Args:
        seen: called with each record when its state has changed since the last look, the first one included.
        trouble: called with what keeps a platform from answering, each time; it is asked again.

    Raises:
        UserError: a job was removed meanwhile, or its record cannot be read; or a platform refuses to be asked, which
            waiting would not mend. The jobs go on.
    """
    limit = TimeLimit(seconds)
    found: dict[str, JobRecord] = {}
    pauses, remote_pauses = Backoff(_SHORTEST, _LONGEST), Backoff(_REMOTE, _LONGEST_REMOTE)
    wanted = list(names)
    for name in wanted:
        _look(store, name, found, lambda record: None if _is_to_be_asked(record) else seen(record))
    _ask_again(store, found, seen, trouble)
    while True:
        for name in wanted:
            _look(store, name, found, seen)
        remote = [record for record in found.values() if record.handle and (record.unread or not record.over)]
        if remote:
            _ask(store, remote, found, seen, trouble)
        if all(record.over for record in found.values()) or limit.passed:
            return [found[name] for name in wanted]
        (remote_pauses if remote else pauses).wait(at_most=limit.left)


def exit_code_of(record: JobRecord) -> int:
    """What waiting for the job ends with: 0 for a success, else its own exit code, 1 where it has none."""
    return 0 if record.state == "succeeded" else record.exit_code or 1


def _look(store: JobStore, name: str, found: dict[str, JobRecord], seen: Callable[[JobRecord], object]) -> None:
    before = found.get(name)
    if before is not None and before.over:
        return
    found[name] = settled(store, name)
    if before is None or before.state != found[name].state:
        seen(found[name])


def _is_to_be_asked(record: JobRecord) -> bool:
    return bool(record.handle) and record.state == "lost"


def _ask_again(
    store: JobStore,
    found: dict[str, JobRecord],
    seen: Callable[[JobRecord], object],
    trouble: Callable[[str], object],
) -> None:
    """Asks about jobs that are lost, as far as that can be done now."""
    from nemo_runspec.remote.refresh import refresh

    lost = [record for record in found.values() if _is_to_be_asked(record)]
    for record, _ in refresh(store, lost, trouble=lambda text, _: trouble(text)):
        found[record.name] = record
        seen(record)


def _ask(
    store: JobStore,
    remote: Sequence[JobRecord],
    found: dict[str, JobRecord],
    seen: Callable[[JobRecord], object],
    trouble: Callable[[str], object],
) -> None:
    """Asks the platforms of jobs elsewhere. One that does not answer is asked again with the next look."""
    from nemo_runspec.remote.refresh import refresh

    try:
        answers = refresh(store, remote)
    except UserError as error:
        if not error.transient:
            raise
        trouble(error.what)
        answers = refresh(store, remote, trouble=lambda text, jobs: None)  # other platforms may answer
    for record, _ in answers:
        before = found[record.name]
        found[record.name] = record
        if before.state != record.state:
            seen(record)
