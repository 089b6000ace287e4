"""A plan's run on W&B: whether it has one, and what a sweep or a recipe without W&B of its own changes about it."""

from __future__ import annotations

from dataclasses import replace

from nemo_runspec.plans.model import EnvVar, Plan

_ID, _GROUP, _MODE = "WANDB_RUN_ID", "WANDB_RUN_GROUP", "WANDB_MODE"
_SECTION = "run.wandb."
"""How the sources of variables that the section has set begin."""


def run_id(plan: Plan) -> str:
    """The id of the job's run, the same for each of its attempts; '' for a job without W&B."""
    wanted = any(variable.source.startswith(_SECTION) for variable in plan.env)
    return _value(plan, _ID) or plan.name if wanted and _value(plan, _MODE) != "disabled" else ""


def forwards(plan: Plan) -> bool:
    """True if what the job appends to its file of metrics is sent on to its run."""
    return bool(plan.run.get("wandb", {}).get("forward")) and bool(run_id(plan))


def in_group(plan: Plan, group: str) -> Plan:
    """The plan as a member of a sweep: its run is in a group of that name, unless it is in one already."""
    if not run_id(plan) or _value(plan, _GROUP):
        return plan
    return replace(plan, env=(*plan.env, EnvVar(_GROUP, group, "the sweep's name")))


def _value(plan: Plan, name: str) -> str:
    return next((variable.value for variable in plan.env if variable.name == name), "")
