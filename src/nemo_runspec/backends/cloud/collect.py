"""What is left of a job that is over, by the last lines of its nodes."""

from __future__ import annotations

from nemo_runspec.diagnosis.model import Diagnosis
from nemo_runspec.remote.provider import Results
from nemo_runspec.script.pod_marker import inputs_of, metrics_history, outputs_of


def results_of(log: bytes, diagnosis: Diagnosis | None = None) -> Results:
    """The metrics, outputs and inputs that a job's nodes name, with the verdict on a failure."""
    return Results(metrics_history(log), outputs_of(log), diagnosis, inputs=inputs_of(log))
