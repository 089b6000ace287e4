"""What the handle of every cloud job holds, known from its plan before anything is asked."""

from __future__ import annotations

from typing import Any

from nemo_runspec import paths
from nemo_runspec.backends.cloud.fields import CloudTarget
from nemo_runspec.backends.cloud.pod.program import declared_outputs
from nemo_runspec.planning.model import Plan


def handle_of(plan: Plan) -> dict[str, Any]:
    """Plain JSON without a secret; a backend adds where its platform is.

    `here`: the job's directory as this machine sees it, '' where it does not. `deadlines`: seconds by phase, and as
    `action` what is done then, see `remote.deadlines`. `attempt` counts from 0, up to `attempts`.
    """
    target: CloudTarget = plan.target
    return {
        "name": plan.name,
        "job_dir": plan.job_dir,
        "here": str(paths.expand_user(target.run_dir_here, "run_dir_here") / "jobs" / plan.name)
        if target.run_dir_here
        else "",
        "nodes": plan.resources.nodes,
        "attempt": 0,
        "attempts": target.retries + 1,
        "avoid_failed_nodes": target.avoid_failed_nodes,
        "deadlines": {
            "queue": target.queue_timeout,
            "pull": target.pull_timeout,
            "start": target.start_timeout,
            "action": target.on_timeout,
        },
        "outputs": declared_outputs(plan),
        "profile": plan.profile,
        "env_file": plan.env_file,
    }
