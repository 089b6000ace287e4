"""`nemotron jobs rm`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nemo_runspec.errors import UserError
from nemotron.cli.commands.jobs.act import named, say, sweeps_among
from nemotron.cli.commands.jobs.listing import known_recipes
from nemotron.cli.text import count

if TYPE_CHECKING:
    from nemo_runspec.jobs import JobRecord, JobStore, Unreadable
    from nemo_runspec.jobs.select import Filter
    from nemo_runspec.sweeps.model import Sweep


def call(
    jobs: Sequence[str],
    older_than: str | None,
    force: bool,
    dry_run: bool,
    states: Sequence[str],
    recipe: str | None,
    profile: str | None,
    group: str | None,
    as_json: bool,
) -> int:
    """Removes jobs that are over."""
    from nemo_runspec.jobs import JobStore
    from nemo_runspec.jobs.select import Filter, seconds_in, states_of
    from nemo_runspec.sweeps.control import refuse_running

    older = seconds_in(older_than, "--older-than") if older_than else None
    wanted = Filter(states_of(states), recipe, profile, group, older=older)
    if bool(jobs) != wanted.empty:
        raise UserError(
            "jobs are removed by their names, or by conditions, one of the two",
            remedy="nemotron jobs rm JOB…, or nemotron jobs rm --older-than 30d --state failed",
        )
    store = JobStore()
    sweeps = sweeps_among(jobs)
    for sweep in sweeps:
        refuse_running(sweep)
    names = _named(store, jobs, force) if jobs else _meeting(store, wanted, force)
    for name in names if not dry_run else ():
        _remove(store, name, force)
    for sweep in sweeps if not dry_run else ():
        _remove_sweep(sweep)
    if as_json:
        print(json.dumps({"removed": [] if dry_run else names, "would_remove": names if dry_run else []}, indent=2))
    else:
        print("\n".join([*names, f"{count(len(names), 'job')} {'would be ' if dry_run else ''}removed"]))
    return 0


def _named(store: JobStore, words: Sequence[str], force: bool) -> list[str]:
    """Names of the jobs that are meant, none of which anything speaks against."""
    entries = named(store, words)
    for entry in entries:
        _refuse(store.read(entry), force)
    return [entry.name for entry in entries]


def _meeting(store: JobStore, wanted: Filter, force: bool) -> list[str]:
    """Names of the jobs that meet the conditions and are over."""
    from nemo_runspec.jobs.select import select

    found = select(store.entries(), wanted, known_recipes)
    free = [entry.name for entry in found if entry.over or (force and entry.state == "unknown")]
    if len(free) < len(found):
        say(f"{count(len(found) - len(free), 'job')} not over and left as they are")
    return free


def _refuse(record: JobRecord | Unreadable, force: bool) -> None:
    """Raises what speaks against the removal of a job."""
    from nemo_runspec.jobs import Unreadable

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


def _remove(store: JobStore, name: str, force: bool) -> None:
    """Removes a job and the repositories that were checked out for it alone."""
    from nemo_runspec.packaging.mounts import remove_checkouts
    from nemo_runspec.supervise.pinned import read_mounts

    mounts = read_mounts(store.folder(name))
    try:
        store.remove(name, lambda record: _refuse(record, force))
        remove_checkouts(mounts, name)
    except OSError as error:
        raise UserError(f"job '{name}' cannot be removed: {error.strerror or error}", where=error.filename) from None


def _remove_sweep(sweep: Sweep) -> None:
    from nemo_runspec.sweeps.control import remove
    from nemo_runspec.sweeps.store import SweepStore

    try:
        remove(SweepStore(), sweep)
    except OSError as error:
        raise UserError(
            f"sweep '{sweep.group}' cannot be removed: {error.strerror or error}", where=error.filename
        ) from None
