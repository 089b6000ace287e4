"""Slurm: jobs go through `sbatch`, on this machine or over SSH. Everything nemotron knows about Slurm is here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.base import Backend
from nemo_runspec.backends.checks import JOB_DIR
from nemo_runspec.backends.slurm.fields import FIELDS
from nemo_runspec.backends.slurm.values import run_dir


class SlurmBackend(Backend):
    """Slurm's directory for jobs depends on where `sbatch` runs."""

    def run_dir(self, env: Mapping[str, Any]) -> str:
        """`remote_job_dir`, or its default there; `HOME` stands for a home directory not known from here."""
        return run_dir(env)

    def runs_elsewhere(self, env: Mapping[str, Any]) -> bool:
        """A login node shares its files with the nodes."""
        return env.get("tunnel") == "ssh"


BACKEND = SlurmBackend(
    name="slurm",
    remote=True,
    fields=FIELDS,
    target="nemo_runspec.backends.slurm.target:make_target",
    target_type="nemo_runspec.backends.slurm.fields:SlurmTarget",
    render="nemo_runspec.backends.slurm.render:render",
    executor="nemo_runspec.backends.slurm.executor:make_executor",
    provider="nemo_runspec.backends.slurm.client:SlurmProvider",
    preflight="nemo_runspec.backends.slurm.preflight.checks:run_checks",
    setup="nemo_runspec.backends.slurm.setup:SETUP",
    inputs="nemo_runspec.backends.slurm.cluster.stage:present",
    after="nemo_runspec.backends.slurm.target:after",
    node_identity="nemo_runspec.backends.slurm.executor:SRUN_TASK",
    ships_repository=True,
    builds=True,
    mounts_sent_to=JOB_DIR,
    run_dir_key="remote_job_dir",
)
