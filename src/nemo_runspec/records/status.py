"""The status of a job, as its platform reports it."""

from __future__ import annotations

from dataclasses import dataclass, field

from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.progress import MetricsEnds

__all__ = ["JobFacts", "JobStatus", "never_submitted"]


@dataclass(frozen=True, slots=True)
class JobStatus:
    """What a platform says of a job now.

    Args:
        state: one of `records.record.STATES`.
        reason: why, in words.
        exit_code, signal: of a job that is over.
        facts: what else is worth showing.
        started, ended: seconds since 1970.
        by: who has stopped it, where the platform knows that and `reason` says it.
        gone: True where the platform never had such a job: it was not submitted.
        absent: True where the platform says that it has no such job any more, both in its list and by the job's id. The
            state is `unknown` then: an absence is believed only once several looks agree (`records.absence`).
        metrics: of a running job, the ends of the file it writes them to, where its platform can be asked for them.
        detail: a value of the backend's own type, for its `collect` and `diagnose`; never stored.
    """

    state: str
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    facts: JobFacts = field(default_factory=JobFacts)
    started: float | None = None
    ended: float | None = None
    by: str = ""
    gone: bool = False
    absent: bool = False
    metrics: MetricsEnds | None = field(default=None, compare=False)
    detail: object = field(default=None, compare=False, repr=False)


def never_submitted() -> JobStatus:
    """The status of a job that was recorded, and that its platform never had."""
    return JobStatus("failed", "it was never submitted: nemotron ended before it did", exit_code=1, gone=True)
