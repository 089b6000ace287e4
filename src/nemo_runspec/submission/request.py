"""The request that is handed to a supervisor or a provider: a plan, and what is no part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nemo_runspec.plans.model import Plan


@dataclass(frozen=True)
class RetriedJob:
    """The job that is run once more. `archive`: its code package, None where it had none."""

    name: str
    archive: Path | None = None


@dataclass(frozen=True)
class Submission:
    """One job to be run on this machine.

    Args:
        plan_text: the plan's JSON, to be kept.
        secrets: by variable; only the job's own processes get them.
        argv: the command line, to be kept redacted.
        group: the sweep it belongs to.
        retried: set for a retry.
        needs: names of jobs whose outputs it waits for on its platform.
    """

    plan: Plan
    plan_text: str
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    argv: tuple[str, ...] = ()
    group: str | None = None
    retried: RetriedJob | None = None
    needs: tuple[str, ...] = ()
