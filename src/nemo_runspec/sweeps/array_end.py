"""A sweep that nobody watches over, when somebody asks: its members' states and metrics now, at its end the results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.remote.refresh import refresh
from nemo_runspec.sweeps.array_follow import fetch_failed_logs, fetch_metrics
from nemo_runspec.sweeps.model import PIPELINE, Sweep
from nemo_runspec.sweeps.results import CSV, write_results
from nemo_runspec.sweeps.settle import settled
from nemo_runspec.sweeps.store import SweepStore
from nemo_runspec.sweeps.table import make_table


def look_again(store: SweepStore, sweep: Sweep, trouble: Callable[[str], object] | None = None) -> Sweep:
    """The sweep as it is now: one that nobody watches over is asked about. Once it has ended, it has its results.

    Args:
        trouble: takes what keeps a machine from being asked, and the results from being written; what was known stands
            then. Without it a machine that cannot be asked about a job that goes on is an error.

    Raises:
        UserError: it cannot be read; or, where there is no `trouble`, a machine does not answer.
    """
    folder = store.folder(sweep.group)
    if not sweep.unattended or sweep.launcher is not None or (folder / CSV).exists():
        return sweep
    jobs = JobStore()
    records = [member.record for member in sweep.members if isinstance(member.record, JobRecord)]
    unasked = (lambda text, _: trouble(f"{text}; this is what was known")) if trouble else None
    now = [record for record, _ in refresh(jobs, records, trouble=unasked)]
    fetch_metrics(jobs, now)
    sweep = settled(store, sweep.group)
    if sweep.ended is not None:
        fetch_failed_logs(jobs, now)
    if sweep.ended is not None and sweep.kind != PIPELINE:
        _write_results(sweep, folder, trouble)
    return sweep


def _write_results(sweep: Sweep, folder: Path, trouble: Callable[[str], object] | None) -> None:
    """The table and the picture; they can be made again at any time."""
    try:
        write_results(sweep, make_table(sweep), folder)
    except OSError as error:
        if trouble is not None:
            trouble(f"the results cannot be written: {error.strerror}: {error.filename}")
