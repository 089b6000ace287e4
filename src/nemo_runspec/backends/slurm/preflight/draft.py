"""The job that a profile alone would make, so that Slurm can be asked about the very options it would be sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.planning.model import Bundle, Launch, Package, Plan, PythonEnv, RecipeRef, Resources

_NAME = "nemotron-doctor"


@dataclass(frozen=True)
class Draft:
    """A job to be tested, never to be run.

    Args:
        role: what it is for: `run`, `batch`, or both, as `run, batch`.
        script: its batch script. `unbilled`: the same without account and QoS; '' where it names neither.
    """

    role: str
    partition: str | None
    script: str
    unbilled: str = ""


def plan_of(env: Mapping[str, Any], mode: str) -> Plan:
    """A plan of no recipe: the profile's shape under torchrun.

    Raises:
        UserError: values that no job can be made of.
    """
    backend = get_backend("slurm")
    gpus = int(env.get("gpus_per_node") or 0)
    resources = Resources(int(env.get("nodes") or 1), gpus, int(env.get("nproc_per_node") or gpus or 1))
    target = backend.target_alone(env, mode, name=_NAME)
    return Plan(
        name=_NAME, recipe=RecipeRef("doctor", "doctor", ""), config_name=None, executor="slurm", mode=mode,
        profile=None, env_file=None, job_dir=backend.job_dir(env, _NAME), launch=Launch("torchrun", "main.py"),
        python=PythonEnv(), resources=resources, env=(), secrets=(), bundle=Bundle(), package=Package(),
        consumes=(), produces=(), run={}, config={}, sources={}, target=target,
    )  # fmt: skip


def drafts_of(env: Mapping[str, Any]) -> tuple[Draft, ...]:
    """One for each way to run that differs: attached and detached, the same where nothing is said."""
    found: dict[str, Draft] = {}
    for mode in ("run", "batch"):
        plan = plan_of(env, mode)
        made = draft(plan, mode)
        same = found.get(made.script)
        found[made.script] = replace(same, role=f"{same.role}, {mode}") if same else made
    return tuple(found.values())


def draft(plan: Plan, role: str) -> Draft:
    """The draft of a plan, a real one perhaps."""
    target = plan.target
    unbilled = options(replace(plan, target=replace(target, account=None, qos=None)))
    return Draft(role, target.partition, options(plan), unbilled if target.account or target.qos else "")


def options(plan: Plan) -> str:
    """The head of a plan's batch script, which is all that sbatch reads, as a script of its own."""
    from nemo_runspec.backends.slurm.render import render_sbatch

    lines = [line for line in render_sbatch(plan).splitlines() if line.startswith("#SBATCH ")]
    return "\n".join(("#!/bin/bash", *lines, "true", ""))
