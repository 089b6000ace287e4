"""A sweep that nobody watches over, when somebody asks: its members' states and metrics now, at its end the results."""

from __future__ import annotations

from collections.abc import Callable

from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.remote.refresh import refresh
from nemo_runspec.sweeps.array_follow import fetch_failed_logs, fetch_metrics
from nemo_runspec.sweeps.model import PIPELINE, Sweep
from nemo_runspec.sweeps.results import CSV, write_results
from nemo_runspec.sweeps.store import SweepStore
from nemo_runspec.sweeps.table import make_table


def look_again(store: SweepStore, sweep: Sweep, trouble: Callable[[str], None]) -> Sweep:
    """The sweep with the records of its members as they are now. One that has ended has its results afterwards.

    Args:
        trouble: takes what keeps a machine from being asked; what was known stands then.

    Raises:
        OSError: the results cannot be written.
    """
    folder = store.folder(sweep.group)
    if (folder / CSV).exists():
        return sweep
    jobs = JobStore()
    records = [member.record for member in sweep.members if isinstance(member.record, JobRecord)]
    now = [record for record, _ in refresh(jobs, records, trouble=lambda text, _: trouble(text))]
    fetch_metrics(jobs, now)
    sweep = store.get(sweep.group)
    if sweep.ended is not None:
        fetch_failed_logs(jobs, now)
    if sweep.ended is not None and sweep.kind != PIPELINE:
        write_results(sweep, make_table(sweep), folder)
    return sweep
