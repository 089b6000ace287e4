"""What the handle of every cloud job holds, known from its plan before anything is asked."""

from __future__ import annotations

from typing import Any

from nemo_runspec import paths
from nemo_runspec.backends.cloud.fields import CloudTarget
from nemo_runspec.backends.cloud.pod.program import declared_outputs
from nemo_runspec.backends.provider import Policy
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.records.lifecycle import Attempt, Deadlines


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
