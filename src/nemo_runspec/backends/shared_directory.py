"""A job's directory on a file system that this machine shares with the job: filled, read and emptied from here.

For backends whose platform starts processes and leaves files to its users.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.backends.base import Rendering
from nemo_runspec.backends.log_files import new_chunks
from nemo_runspec.backends.provider import Cursors, LogChunk, Parts, Results
from nemo_runspec.jobside.downsample import as_lines, downsample
from nemo_runspec.packaging.pack import unpack
from nemo_runspec.plans.model import Plan
from nemo_runspec.records.inputs_read import inputs_read
from nemo_runspec.records.status import JobStatus
from nemo_runspec.regular import open_regular
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import deciding_marker, marked_end, read_markers
from nemo_runspec.script.quoting import exports
from nemo_runspec.script.wandb_run import run_in
from nemo_runspec.submission.bundle import write_bundle
from nemo_runspec.submission.layout import job_files, make_folders


def fill(root: Path, plan: Plan, parts: Parts, rendering: Rendering, secrets: Mapping[str, str]) -> None:
    """Puts all that a job needs into its directory; a second call begins anew.

    Args:
        root: as the job itself names it too.
        secrets: by variable; they go into a file that the job reads and removes.

    Raises:
        UserError: the code package cannot be unpacked. OSError: it cannot be written.
    """
    layout = JobLayout(str(root))
    paths.private_dir(root)
    make_folders(layout)
    for name, text in job_files(plan, rendering).items():
        paths.write_private(root / name, text)
    write_bundle(dict(parts.contents), Path(layout.bundle))
    if parts.archive is not None:
        unpack(parts.archive, Path(layout.code))
    if secrets:
        paths.write_private(Path(layout.secrets), exports(secrets))


def ended(root: Path, nodes: int, *, stopped: bool) -> JobStatus | None:
    """How a job has ended, by the markers that its nodes have left; None where some have left none.

    Args:
        stopped: somebody has asked it to stop.
    """
    markers = read_markers(Path(JobLayout(str(root)).status))
    last, end = deciding_marker(markers), marked_end(markers, nodes)
    if last is None or len({marker.node for marker in markers}) < nodes:
        return None
    seen = JobStatus(
        "succeeded" if end.exit_code == 0 else "failed",
        end.cause,
        exit_code=end.exit_code,
        signal=end.signal,
        started=min(marker.started for marker in markers),
        ended=max(marker.ended for marker in markers),
    )
    return replace(seen, state="cancelled") if stopped and last.received else seen


def log_chunks(root: Path, cursors: Cursors, limit: int) -> Iterator[LogChunk]:
    """What is new in the files below `logs/`, in the order of their names.

    Args:
        cursors: how much of each is known.
        limit: bytes in all.
    """
    files = sorted(Path(JobLayout(str(root)).logs).glob("*.log"))
    return new_chunks({file.name: file for file in files}, cursors, limit)


def results(root: Path, outputs: Mapping[str, str]) -> Results:
    """Metrics and outputs of a job that is over; its secrets are removed, if they are left.

    Args:
        outputs: name → path, of what the job was to make.
    """
    layout = JobLayout(str(root))
    Path(layout.secrets).unlink(missing_ok=True)
    try:
        with os.fdopen(open_regular(Path(layout.metrics)), "rb") as lines:
            history = as_lines(downsample(lines).records())
    except OSError:
        history = b""
    there = {name: path for name, path in outputs.items() if os.path.lexists(path)}
    inputs = dict(inputs_read(Path(layout.status)))
    return Results(history=history, outputs=there, inputs=inputs, wandb=run_in(root))
