"""The first record of a job, made of its plan before anything is done for it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_runspec.artifacts.store import known_inputs
from nemo_runspec.records.progress import total_in
from nemo_runspec.records.record import JobRecord, Transition, now

if TYPE_CHECKING:
    from nemo_runspec.plans.model import Package, Plan


def planned_record(
    plan: Plan,
    argv: Sequence[str],
    secret_values: Iterable[str],
    **known: Any,
) -> JobRecord:
    """The record in state `planned`. No secret value of `secret_values`, and none under a secret's name, is in it.

    Args:
        known: further fields of it.
    """
    from nemo_runspec.plans.wandb import run_id
    from nemo_runspec.processes import user_name
    from nemo_runspec.redact import redact_argv

    secrets = tuple(secret_values)
    return JobRecord(
        name=plan.name,
        recipe=plan.recipe.path,
        config=plan.config_name,
        profile=plan.profile,
        executor=plan.executor,
        mode=plan.mode,
        argv=tuple(redact_argv(argv, secrets)),
        cwd=str(Path.cwd()),
        user=user_name(),
        host=os.uname().nodename,
        commit=plan.package.commit,
        states=(Transition("planned", now()),),
        overrides=tuple(redact_argv(plan.overrides, secrets)),
        package=_package(plan.package),
        inputs=known_inputs(plan),
        tags=plan.labels.tags,
        total_steps=total_in(plan.config),
        on_end=str((plan.run.get("env") or {}).get("on_end") or ""),
        note=redact_argv([plan.labels.note], secrets)[0],
        wandb={"id": run_id(plan)} if run_id(plan) else {},
        **known,
    )


def _package(package: Package) -> dict[str, Any]:
    return {
        "kind": package.kind,
        "digest": package.digest,
        "commit": package.commit,
        "root": package.root,
        "uncommitted": len(package.uncommitted),
        "untracked": len(package.untracked),
        "included": len(package.included),
        "bundled": len(package.bundled),
    }
