"""`[artifacts] backend = "wandb"`: whether what a job makes is registered with W&B too, and where there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.artifacts.store import BUCKETS, followed_inputs, versions_of
from nemo_runspec.plans.model import Artifact, Plan, PythonEnv
from nemo_runspec.plans.wandb import forwards, run_id
from nemo_runspec.source import Layer

BACKEND = "wandb"
_KEY = "run.artifacts.backend"
PACKAGES = PythonEnv(("wandb",))
"""The environment of W&B's package: it asks for many others, which need not fit those of anybody else."""
_NOT_ASKED = ("offline", "disabled")


def registers(plan: Plan) -> bool:
    """True if what the job makes is registered with W&B, by its run.

    Not of the tasks of an array of the user's own, which make one version together.
    """
    return bool(
        _is_named(plan) and not plan.run["env"].get(plan.target.array_key) and run_id(plan) and versions_of(plan)
    )


def wandb_tasks(plan: Plan) -> tuple[str, ...]:
    """What a process beside the job's command tells W&B, in the words of `jobside.forward`."""
    return (*(["metrics"] if forwards(plan) else []), *(["artifacts"] if registers(plan) else []))


def project_of(wandb: Mapping[str, Any]) -> str:
    """`ENTITY/PROJECT` of a `[wandb]` section, `PROJECT` where it names no entity; '' where it names no project."""
    named = [str(wandb[key]) for key in ("entity", "project") if wandb.get(key)]
    return "/".join(named) if wandb.get("project") else ""


def is_asked(artifacts: Mapping[str, Any], wandb: Mapping[str, Any]) -> bool:
    """True if versions are looked up at W&B: offline, the store knows what there is.

    Args:
        artifacts, wandb: the sections.
    """
    return artifacts.get("backend") == BACKEND and wandb.get("mode") not in _NOT_ASKED


def unpinned(plan: Plan) -> list[Artifact]:
    """The inputs whose version is yet to be looked up at W&B.

    The newest one that there is once other jobs have ended, the job finds in the store.
    """
    if not is_asked_by(plan):
        return []
    waits = plan.waits_for_jobs
    return [a for a in followed_inputs(plan) if not (waits and a.version is None) and not _is_of_bucket(plan, a)]


def is_asked_by(plan: Plan) -> bool:
    """As `is_asked`, of a plan's own sections."""
    return _is_named(plan) and is_asked(plan.run["artifacts"], plan.run.get("wandb") or {})


def _is_named(plan: Plan) -> bool:
    source = plan.sources.get(_KEY)
    return is_named(plan.run, source.layer.value if source else "")


def is_named(run: Mapping[str, Any], layer: object) -> bool:
    """True if somebody has named this backend: in plans of earlier releases it stands by default, and meant nothing.

    Args:
        run: the plan's `run` section.
        layer: which layer has set `artifacts.backend`, as a plan's JSON has it.
    """
    return (run.get("artifacts") or {}).get("backend") == BACKEND and layer != Layer.DEFAULT.value


def is_named_in(plan: Mapping[str, Any]) -> bool:
    """As `is_named`, of a plan's JSON of any release; False where it says nothing of the kind."""
    try:
        return is_named(plan["run"], plan["sources"][_KEY]["layer"])
    except (LookupError, TypeError, AttributeError):
        return False


def _is_of_bucket(plan: Plan, artifact: Artifact) -> bool:
    """True if the job fetches a version of its own store's, by the name of the job that made it."""
    in_bucket = str(plan.run["artifacts"].get("root")).startswith(BUCKETS)
    return in_bucket and artifact.ready is True
