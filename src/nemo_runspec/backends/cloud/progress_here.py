"""The progress of a running job, read in its directory where this machine sees it (`run_dir_here`): nobody is asked."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.provider import Handle
from nemo_runspec.records.progress import ends_of
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.layout import JobLayout

_BEGUN = "spare-0"
"""What node 0's supervisor makes as its command begins, once inputs are there (jobside/node.py)."""


def with_progress(status: JobStatus, handle: Handle) -> JobStatus:
    """A running job with the ends of its metrics, and since when it writes them by the clock of that file server."""
    here = PodHandle(handle).here
    if here is None or status.state != "running":
        return status
    layout = JobLayout(str(here))
    metrics = ends_of(Path(layout.metrics))
    if metrics is None:
        return status
    begun = None
    with suppress(OSError):
        begun = Path(layout.status, _BEGUN).stat().st_mtime
    return replace(status, metrics=metrics, started=status.started or begun)
