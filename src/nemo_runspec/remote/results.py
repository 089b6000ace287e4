"""Writes into a job's record how it ended, and what is left of it. One place for the first look and
for those that read later what could not be read then."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Any

from nemo_runspec.backends.provider import Results
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.metrics import keep_history, last_values
from nemo_runspec.records.status import JobStatus
from nemo_runspec.remote.deadlines import told_by
from nemo_runspec.script.markers import with_loss


def collected(store: JobStore, record: JobRecord, seen: JobStatus, rest: Results) -> dict[str, Any]:
    """The fields of the record that its end gives, beside what it has of them; its curves are kept in its folder.

    Args:
        seen: how it ended.
        rest: what is left of it, as far as it could be fetched.
    """
    rest = told_by(record, rest) if seen.state == "failed" else rest
    with suppress(OSError):  # a curve is no reason not to say how the job ended
        keep_history(store.folder(record.name), rest.history)
    return {
        "exit_code": seen.exit_code,
        "signal": seen.signal,
        "cause": with_loss(seen.reason, rest.lost_lines) or record.cause,
        "outputs": {**record.outputs, **rest.outputs},
        "inputs": {**record.inputs, **rest.inputs},
        "metrics": {**record.metrics, **last_values(rest.history.splitlines())},
        "wandb": {**record.wandb, **rest.wandb},
        "diagnosis": asdict(rest.diagnosis) if rest.diagnosis else dict(record.diagnosis),
    }
