"""Registers what an ended job has made, and its store has, with W&B: from here, by the job's own run."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from nemo_runspec.artifacts.registry import Registry
from nemo_runspec.artifacts.store import versions_of
from nemo_runspec.artifacts.wandb import is_asked_by, registers
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.records import JobRecord


def with_wandb_told(plan: Plan, record: JobRecord) -> Mapping[str, str]:
    """What is known of a job's run, once W&B has all that it made; as it was for a job of which W&B is not told.

    Raises:
        UserError: its store cannot be read from here, or W&B cannot be asked or refuses it.
    """
    if not (registers(plan) and is_asked_by(plan)):
        return record.wandb
    from nemo_runspec.remote.artifact_stores import readable_storage
    from nemo_runspec.remote.wandb_store import WandbStorage

    beneath = readable_storage(plan)
    if beneath is None:
        raise UserError(
            f"the store of job '{record.name}' cannot be read from here, so W&B was not told of what it made",
            remedy="nemotron artifacts add PATH --name NAME --type TYPE tells it of data alone",
        )
    storage = WandbStorage(plan.run["wandb"], beneath)
    told = []
    for path in versions_of(plan):
        name = posixpath.basename(posixpath.dirname(path))
        version = Registry(beneath, [name]).get(f"{name}:{record.name}")
        told.append(storage.adopt(version, version.path if "://" in version.path else path, record.name))
    rest = {key: value for key, value in record.wandb.items() if key != "unregistered"}
    return {**rest, "artifacts": " ".join(told)}
