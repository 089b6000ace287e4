"""How a replica's container is started: command, environment, mounts and host names, as the platform makes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.lepton.job import Attempt, Job, Replica
from labs.pods import Mount, Pod

if TYPE_CHECKING:
    from labs.lepton.base import LeptonBase

WORKER = "worker"
"""The prefix of workers' host names, as the documentation's sample has it."""


def start_replica(lab: LeptonBase, job: Job, attempt: Attempt, replica: Replica) -> Pod:
    """Starts it."""
    return lab.pods.start(
        replica.id,
        attempt.scenario.run or job.spec["container"]["command"],
        environment(lab, job, attempt, replica),
        mounts(lab, job.spec),
        _names(lab, job, attempt),
        hostname=f"{WORKER}-{replica.index}",
    )


def environment(lab: LeptonBase, job: Job, attempt: Attempt, replica: Replica) -> dict[str, str]:
    """The platform's variables, and the job's with secrets put in."""
    shape = lab.world.shape(job.spec["resource_shape"])
    platform = {
        "LEPTON_JOB_NAME": job.id,
        "LEPTON_WORKER_ID": replica.id,
        "LEPTON_JOB_WORKER_INDEX": str(replica.index),
        "LEPTON_JOB_TOTAL_WORKERS": str(job.workers),
        "LEPTON_JOB_WORKER_PREFIX": WORKER,
        "LEPTON_JOB_WORKER_HOSTNAME_PREFIX": WORKER,
        "LEPTON_JOB_SERVICE_PREFIX": job.id,
        "LEPTON_SUBDOMAIN": f"{job.id}-job-svc",
        "LEPTON_RESOURCE_ACCELERATOR_NUM": str(shape.accelerator_num if shape else 0),
        "LEPTON_RESOURCE_ACCELERATOR_TYPE": shape.accelerator_type if shape else "",
        "LEPTON_JOB_FAILURE_COUNT": str(attempt.number),
        "LEPTON_WORKSPACE_ID": lab.workspace,
        "LEPTON_VIRTUAL_ENV": "/opt/lepton/venv",
    }
    return {**platform, **{env["name"]: _value(lab, env) for env in job.spec.get("envs", [])}}


def mounts(lab: LeptonBase, spec: Mapping[str, Any]) -> list[Mount]:
    """The directories of this machine behind a job's mounts; made where the volume makes them."""
    found: list[Mount] = []
    for mount in spec.get("mounts", []):
        source = directory(lab, mount)
        volume = lab.world.sources[mount["from"]]
        if volume is None or volume.mkdir:
            source.mkdir(parents=True, exist_ok=True)
        found.append((source, mount["mount_path"], bool(mount.get("mount_options", {}).get("read_only"))))
    return found


def directory(lab: LeptonBase, mount: Mapping[str, Any]) -> Path:
    """Where a mount's content is on this machine."""
    volume = lab.world.sources[mount["from"]]
    top = lab.world.directory(volume.name) if volume else lab.world.folder / "node-local"
    return top / str(mount.get("path", "/")).strip("/")


def _value(lab: LeptonBase, env: Mapping[str, Any]) -> str:
    if "value_from" in env:
        return lab.world.secrets[env["value_from"]["secret_name_ref"]]
    return str(env["value"])


def _names(lab: LeptonBase, job: Job, attempt: Attempt) -> list[str]:
    """The host names that resolve in the job's pods: other pods' only where they were allowed to talk."""
    form = attempt.scenario.hosts or lab.hosts
    if form == "none" or not job.spec.get("intra_job_communication"):
        return []
    prefix = WORKER if form == "worker" else job.id
    return [f"{prefix}-{index}.{job.id}-job-svc" for index in range(job.workers)]
