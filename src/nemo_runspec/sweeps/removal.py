"""Jobs and sweeps that are over, removed with all that is left of them elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.packaging.mounts import remove_checkouts
from nemo_runspec.records import JobRecord, JobStore, Unreadable
from nemo_runspec.records.index import Entry
from nemo_runspec.records.lost import refresh_lost
from nemo_runspec.remote.group import clear_together
from nemo_runspec.remote.refresh import refresh
from nemo_runspec.runner.cleanup import clean_up
from nemo_runspec.submission.mount_commits import read_mounts
from nemo_runspec.sweeps.control import refuse_running, remove
from nemo_runspec.sweeps.overview import Overview
from nemo_runspec.sweeps.settle import settle_those_of


@dataclass(frozen=True)
class Removable:
    """What is to be removed: names of jobs and of sweeps."""

    jobs: Sequence[str] = field(default_factory=tuple)
    sweeps: Sequence[str] = field(default_factory=tuple)


def removable(overview: Overview, meant: Sequence[Entry], *, force: bool) -> Removable:
    """Jobs, and sweeps with their jobs, none of which anything speaks against.

    Args:
        force: also those that cannot be read, or of which it is not known whether they are over.

    Raises:
        UserError: what speaks against it.
    """
    sweeps = [entry.name for entry in meant if entry.is_sweep]
    for name in sweeps:
        refuse_running(overview.sweep_store, name, force=force)
    jobs = overview.with_members(meant)
    asked, unasked = asked_again(overview.job_store, jobs)
    for entry in jobs:
        if entry.name in unasked and not force:
            raise UserError(
                f"job '{entry.name}' is lost, and whether it is gone cannot be asked now: {unasked[entry.name]}",
                remedy=f"try again later; if it is gone: nemotron jobs rm --force {entry.name}",
            )
        _refuse(asked.get(entry.name) or overview.job_store.read(entry), force)
    return Removable([entry.name for entry in jobs], sweeps)


def asked_again(store: JobStore, entries: Iterable[Entry]) -> tuple[dict[str, JobRecord], dict[str, str]]:
    """Jobs that are lost, as they are now: they may be there; and of which it is not known, with why."""
    found = [store.read(entry) for entry in entries if entry.state == "lost" and not entry.is_sweep]
    lost = [record for record in found if isinstance(record, JobRecord)]
    unasked: dict[str, str] = {}

    def trouble(text: str, some: Sequence[JobRecord]) -> None:
        unasked.update(dict.fromkeys((record.name for record in some), text))

    now = {record.name: record for record, _ in refresh(store, lost, trouble=trouble)}
    for record in lost:
        try:
            now[record.name] = refresh_lost(store, now[record.name])
        except UserError as error:
            trouble(error.what, [record])
    return now, unasked


def remove_all(overview: Overview, found: Removable, *, force: bool, say: Say) -> None:
    """Removes them: what is left of each elsewhere, the repositories that were checked out for it alone, its folder.

    Args:
        force: what cannot be removed elsewhere is said, and left.

    Raises:
        UserError: one goes on, or cannot be removed; those before it are removed then.
    """
    store = overview.job_store
    records = []
    for name in found.jobs:
        with suppress(UserError):
            records.append(store.by_name(name))
    settle_those_of(overview.sweep_store, records)  # later nobody could tell how they have ended
    cleared = clear_together(records)
    for name in found.jobs:
        _remove_job(store, name, force, cleared, say)
    for name in found.sweeps:
        _remove_sweep(overview, name, force)


def _refuse(record: JobRecord | Unreadable, force: bool) -> None:
    """Raises what speaks against the removal of a job."""
    if isinstance(record, Unreadable):
        if not force:
            raise UserError(
                f"the record of job '{record.name}' cannot be read: {record.problem}",
                remedy=f"if it is not needed: nemotron jobs rm --force {record.name}",
            )
    elif record.state == "unknown":
        if not force:
            raise UserError(
                f"whether job '{record.name}' is over is not known: {record.reason}",
                remedy=f"if it is: nemotron jobs rm --force {record.name}",
            )
    elif not record.over:
        raise UserError(
            f"job '{record.name}' is {record.state}; nothing was removed",
            remedy=f"end it first: nemotron jobs cancel {record.name}",
        )


def _remove_job(store: JobStore, name: str, force: bool, cleared: Collection[str], say: Say) -> None:
    """Args: cleared: jobs of which nothing is left elsewhere: those submitted together are removed there together."""

    def check(record: JobRecord | Unreadable) -> None:
        _refuse(record, force)
        if name not in cleared:
            _clean_up(store, name, record, force, say)

    mounts = read_mounts(store.folder(name))
    try:
        store.remove(name, check)
        remove_checkouts(mounts, name)
    except OSError as error:
        raise UserError(f"job '{name}' cannot be removed: {error.strerror or error}", where=error.filename) from None


def _clean_up(store: JobStore, name: str, record: JobRecord | Unreadable, force: bool, say: Say) -> None:
    """Removes what there is of a job elsewhere: a container that nobody watched over any more, never a running one.

    Raises:
        UserError: it runs, or cannot be asked for or removed. With `force` that is only said.
    """
    if isinstance(record, Unreadable) or not record.over:
        return
    try:
        clean_up(record, store.folder(name))
    except UserError as error:
        if not force:
            raise UserError(
                f"job '{name}' was not removed: {error.what}",
                where=error.where,
                remedy=error.remedy or f"nemotron jobs rm --force {name} leaves that as it is",
            ) from None
        say(f"{name}: {error.what}")


def _remove_sweep(overview: Overview, name: str, force: bool) -> None:
    try:
        remove(overview.sweep_store, name, force=force)
    except OSError as error:
        raise UserError(f"'{name}' cannot be removed: {error.strerror or error}", where=error.filename) from None
