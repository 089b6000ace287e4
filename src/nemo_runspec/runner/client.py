"""Who submits a plan: the supervisor of this machine, or what sends jobs to other machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nemo_runspec.backends import get_backend
from nemo_runspec.console import Console
from nemo_runspec.planning.missing_values import refuse_unfilled
from nemo_runspec.plans.model import Plan
from nemo_runspec.submission.request import Submission


@dataclass(frozen=True)
class Caller:
    """Who wants something run.

    Args:
        argv: the command line, which records keep redacted.
        console: is told what happens on the way.
        attached: whether jobs may be shown on this process's terminal. Where not, every job is detached.
    """

    argv: Sequence[str] = ()
    console: Console = field(default_factory=Console)
    attached: bool = False


class Client(Protocol):
    """Submits jobs: `supervise.client` for this machine, `remote.client` for others."""

    def run(self, submission: Submission, *, console: Console) -> int:
        """Stays with the job on this terminal, unless its plan says `batch`; the exit code."""

    def submit(self, submission: Submission, *, console: Console) -> str:
        """Starts the job and leaves it alone; its name."""


def ready_client(plan: Plan) -> Client:
    """What submits this plan.

    Raises:
        UserError: the plan still has placeholders, or its executor cannot be submitted to in this release.
    """
    client = _client(plan.executor)
    refuse_unfilled(plan)
    return client


def _client(executor: str) -> Client:
    backend = get_backend(executor)
    if backend.worker is not None:
        from nemo_runspec.supervise import client as here

        return here
    backend.load_provider()
    from nemo_runspec.remote import client as elsewhere

    return elsewhere
