"""`nemotron jobs rm`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nemo_runspec.errors import UserError
from nemo_runspec.text import count
from nemotron.cli.commands.jobs.messages import say
from nemotron.cli.commands.jobs.selector import counted
from nemotron.cli.forms import print_json

if TYPE_CHECKING:
    from nemo_runspec.sweeps.overview import Overview
    from nemo_runspec.sweeps.removal import Removable
    from nemotron.cli.commands.jobs.selector import Conditions


def call(
    jobs: Sequence[str],
    wanted: Conditions,
    force: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Removes jobs that are over."""
    from nemo_runspec.sweeps.overview import Overview
    from nemo_runspec.sweeps.removal import removable, remove_all

    if bool(jobs) != wanted.empty:
        raise UserError(
            "jobs are removed by their names, or by conditions, one of the two",
            remedy="nemotron jobs rm JOB…, or nemotron jobs rm --older-than 30d --state failed",
        )
    overview = Overview()
    unasked: set[str] = set()
    found = (
        removable(overview, overview.meant(jobs), force=force) if jobs else _meeting(overview, wanted, force, unasked)
    )
    if not dry_run:
        remove_all(overview, found, force=force, say=say)
    names, sweeps = list(found.jobs), list(found.sweeps)
    if as_json:
        key = "would_remove" if dry_run else "removed"
        print_json({"removed": [], "would_remove": [], key: names, "sweeps": sweeps})
    else:
        what = counted(names, [entry for entry in overview.sweeps if entry.name in sweeps])
        print("\n".join([*names, *sweeps, f"{what} {'would be ' if dry_run else ''}removed"]))
    return 2 if unasked else 0


def _meeting(overview: Overview, wanted: Conditions, force: bool, unasked: set[str]) -> Removable:
    """The jobs that meet the conditions and are over; the sweeps that do, where none of their jobs is left then.

    Args:
        unasked: gets the names of jobs that are left because they are lost, and cannot be asked about now.
    """
    from nemo_runspec.sweeps.removal import Removable, asked_again

    found = wanted.select(overview)
    free = [entry for entry in found if entry.over or (force and entry.state == "unknown")]
    asked, troubles = asked_again(overview.job_store, free)
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
    return Removable(jobs, sweeps)
