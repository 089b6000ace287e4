"""Whether a Slurm profile is going to work: a login node is asked everything in one round trip, and told in checks."""

from __future__ import annotations

from collections.abc import Iterator

from nemo_runspec.doctor.check import Check, Question


def checks(question: Question) -> Iterator[Check]:
    """Everything, each check as soon as it is known; `question.job` adds what only a job can see."""
    from nemo_runspec.backends.slurm.preflight.examine import examine

    return examine(question)
