"""`nemotron jobs rm`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from nemo_runspec.errors import UserError
from nemo_runspec.text import count
from nemotron.cli.commands.jobs.messages import say
from nemotron.cli.commands.jobs.selector import counted
from nemotron.cli.forms import print_json

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord, JobStore, Unreadable
    from nemo_runspec.records.index import Entry
    from nemo_runspec.sweeps.overview import Overview
    from nemotron.cli.commands.jobs.selector import Conditions

Found = tuple[list[str], list[str]]
"""Names of jobs, and names of sweeps."""


def call(
    jobs: Sequence[str],
    wanted: Conditions,
    force: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Removes jobs that are over."""
    from nemo_runspec.sweeps.overview import Overview

    if bool(jobs) != wanted.empty:
        raise UserError(
            "jobs are removed by their names, or by conditions, one of the two",
            remedy="nemotron jobs rm JOB…, or nemotron jobs rm --older-than 30d --state failed",
        )
    overview = Overview()
    unasked: set[str] = set()
    names, sweeps = _named(overview, jobs, force) if jobs else _meeting(overview, wanted, force, unasked)
    cleared = _cleared(overview.job_store, names) if not dry_run else set()
    for name in names if not dry_run else ():
        _remove(overview.job_store, name, force, cleared)
    for name in sweeps if not dry_run else ():
        _remove_sweep(overview, name, force)
    if as_json:
        key = "would_remove" if dry_run else "removed"
        print_json({"removed": [], "would_remove": [], key: names, "sweeps": sweeps})
    else:
        what = counted(names, [entry for entry in overview.sweeps if entry.name in sweeps])
        print("\n".join([*names, *sweeps, f"{what} {'would be ' if dry_run else ''}removed"]))
    return 2 if unasked else 0


def _named(overview: Overview, words: Sequence[str], force: bool) -> Found:
    """The jobs and sweeps that are meant, none of which anything speaks against."""
    from nemo_runspec.sweeps.control import refuse_running

    meant = overview.meant(words)
    sweeps = [entry.name for entry in meant if entry.is_sweep]
    for name in sweeps:
        refuse_running(overview.sweep_store, name, force=force)
    jobs = overview.with_members(meant)
    asked, unasked = _asked_again(overview.job_store, jobs)
    for entry in jobs:
        if entry.name in unasked and not force:
            raise UserError(
                f"job '{entry.name}' is lost, and whether it is gone cannot be asked now: {unasked[entry.name]}",
                remedy=f"try again later; if it is gone: nemotron jobs rm --force {entry.name}",
            )
        _refuse(asked.get(entry.name) or overview.job_store.read(entry), force)
    return [entry.name for entry in jobs], sweeps


def _asked_again(store: JobStore, entries: Iterable[Entry]) -> tuple[dict[str, JobRecord], dict[str, str]]:
    """Jobs that are lost, as they are now: they may be there; and of which it is not known, with why."""
    from nemo_runspec.records import JobRecord
    from nemo_runspec.records.lost import refresh_lost
    from nemo_runspec.remote.refresh import refresh

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


def _meeting(overview: Overview, wanted: Conditions, force: bool, unasked: set[str]) -> Found:
    """The jobs that meet the conditions and are over; the sweeps that do, where none of their jobs is left then.

    Args:
        unasked: gets the names of jobs that are left because they are lost, and cannot be asked about now.
    """
    found = wanted.select(overview)
    free = [entry for entry in found if entry.over or (force and entry.state == "unknown")]
    asked, troubles = _asked_again(overview.job_store, free)
    free = [entry for entry in free if entry.name not in asked or asked[entry.name].over]
    if not force:
        free = [entry for entry in free if entry.name not in troubles]
        unasked |= set(troubles)
        for text in dict.fromkeys(troubles.values()):
            say(f"{text}; jobs there that are lost are left as they are")
    jobs = [entry.name for entry in free if not entry.is_sweep]
    gone = set(jobs)
    sweeps = [e.name for e in free if e.is_sweep and all(job.name in gone for job in overview.members(e.name))]
    left = sum(not entry.is_sweep for entry in found) - len(jobs)
    if left:
        say(f"{count(left, 'job')} not over and left as they are")
    return jobs, sweeps


def _refuse(record: JobRecord | Unreadable, force: bool) -> None:
    """Raises what speaks against the removal of a job."""
    from nemo_runspec.records import Unreadable

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


def _cleared(store: JobStore, names: Sequence[str]) -> set[str]:
    """The jobs of which nothing is left elsewhere: those submitted together are removed there together."""
    from nemo_runspec.remote.group import clear_together

    records = []
    for name in names:
        with suppress(UserError):
            records.append(store.by_name(name))
    return clear_together(records)


def _remove(store: JobStore, name: str, force: bool, cleared: Collection[str]) -> None:
    """Removes a job, what is left of it elsewhere, and the repositories that were checked out for it alone."""
    from nemo_runspec.packaging.mounts import remove_checkouts
    from nemo_runspec.submission.mount_commits import read_mounts

    def check(record: JobRecord | Unreadable) -> None:
        _refuse(record, force)
        if name not in cleared:
            _clean_up(store, name, record, force)

    mounts = read_mounts(store.folder(name))
    try:
        store.remove(name, check)
        remove_checkouts(mounts, name)
    except OSError as error:
        raise UserError(f"job '{name}' cannot be removed: {error.strerror or error}", where=error.filename) from None


def _clean_up(store: JobStore, name: str, record: JobRecord | Unreadable, force: bool) -> None:
    """Removes what there is of a job elsewhere: a container that nobody watched over any more, never a running one.

    Raises:
        UserError: it runs, or cannot be asked for or removed. With `force` that is only said.
    """
    from nemo_runspec.records import Unreadable
    from nemo_runspec.runner.cleanup import clean_up

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
    from nemo_runspec.sweeps.control import remove

    try:
        remove(overview.sweep_store, name, force=force)
    except OSError as error:
        raise UserError(f"'{name}' cannot be removed: {error.strerror or error}", where=error.filename) from None
