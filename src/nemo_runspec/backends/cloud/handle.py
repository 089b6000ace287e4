"""What the handle of every cloud job holds: made of its plan before anything is asked, and read again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_runspec import paths
from nemo_runspec.backends.cloud.fields import CloudTarget
from nemo_runspec.backends.cloud.pod.program import declared_outputs
from nemo_runspec.backends.provider import Handle, Policy, handle_id
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.records.lifecycle import Attempt, Deadlines

_OF_AN_ATTEMPT = frozenset({"id", "since", "doubt"})
"""Keys that say something of one attempt alone."""


@dataclass(frozen=True, slots=True)
class PodHandle:
    """A cloud job's handle, read: what the skeleton, and every platform, may ask of it.

    What a damaged one lacks is an error only where it is needed.
    """

    stored: Handle

    @property
    def id(self) -> str:
        """What the platform calls the job, '' as long as it has not said so."""
        return handle_id(self.stored)

    @property
    def name(self) -> str:
        """The job's name, the same for all of its attempts."""
        return str(self.stored["name"])

    @property
    def attempt(self) -> int:
        """Which attempt it is, from 0: a part of what the platform knows it by. The job's record counts them."""
        return int(self.stored.get("attempt") or 0)

    @property
    def nodes(self) -> int:
        """How many nodes the job has."""
        return int(self.stored.get("nodes") or 1)

    @property
    def job_dir(self) -> str:
        """Its directory, as its pods see it."""
        return str(self.stored["job_dir"])

    @property
    def here(self) -> Path | None:
        """The same as this machine sees it, None where it does not."""
        here = str(self.stored.get("here") or "")
        return Path(here) if here else None

    @property
    def is_doubted(self) -> bool:
        """True if there may be another job of its name: one of several requests that was served late."""
        return bool(self.stored.get("doubt"))

    def made(self, id: str, *, doubt: bool = False, **more: Any) -> dict[str, Any]:
        """The handle of the job once it is there. `more`: what the platform's handle has besides."""
        return {**self.stored, "id": id, **more, **({"doubt": True} if doubt else {})}

    def next(self, number: int, **more: Any) -> dict[str, Any]:
        """That of another attempt, not submitted yet. `more`: as for `made`."""
        kept = {key: value for key, value in self.stored.items() if key not in _OF_AN_ATTEMPT}
        return {**kept, "attempt": number, **more}


def handle_of(plan: Plan) -> dict[str, Any]:
    """Plain JSON without a secret; a backend adds where its platform is.

    `here`: the job's directory as this machine sees it, '' where it does not. `attempt`, from 0, is part of what the
    platform knows the job by.
    """
    target = target_of(plan, CloudTarget)
    return {
        "name": plan.name,
        "job_dir": plan.job_dir,
        "here": str(paths.expand_user(target.run_dir_here, "run_dir_here") / "jobs" / plan.name)
        if target.run_dir_here
        else "",
        "nodes": plan.resources.nodes,
        "attempt": 0,
        "outputs": declared_outputs(plan),
        "profile": plan.profile,
        "env_file": plan.env_file,
    }


def policy_of(plan: Plan) -> Policy:
    """How often a job is submitted again, and how long it may wait."""
    target = target_of(plan, CloudTarget)
    deadlines = Deadlines(target.queue_timeout, target.pull_timeout, target.start_timeout, target.on_timeout or "")
    return Policy(Attempt(target.retries + 1, avoid_failed_nodes=target.avoid_failed_nodes), deadlines)
