"""Where a Slurm job lies, placeholders for what only the cluster knows, and how a task finds out which one it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nemo_runspec import paths
from nemo_runspec.placeholders import TextPlaceholder, fill
from nemo_runspec.plans.model import Plan
from nemo_runspec.script.node_identity import NodeIdentity

HOME = TextPlaceholder("@HOME@")
"""The home directory on the other side of an SSH tunnel.

Its name has no character that a shell or Slurm reads specially, so that filling it changes nothing else in a text.
"""

HOST = TextPlaceholder("@HOST@", "the login node, which the profile does not name yet")

JOB_DIR = "/$nemo_run"
"""What NeMo-Run replaces by the job's directory at the front of a mount's source."""

HOST_REMEDY = 'host = "login.cluster.example.com"'


def run_dir(env: Mapping[str, Any]) -> str:
    """`remote_job_dir` as the cluster names it: absolute, or below `HOME` where only the cluster knows it."""
    named = str(env.get("remote_job_dir") or "").rstrip("/")
    if env.get("tunnel") == "ssh":
        return re.sub(r"^~(?=/|$)", HOME, named) or f"{HOME}/.nemotron/run"
    return str(paths.expand_user(named, "remote_job_dir") if named else paths.run_dir())


# srun sets these for every task (man srun, OUTPUT ENVIRONMENT VARIABLES).
SRUN_TASK = NodeIdentity(
    node="${SLURM_NODEID:-0}",
    nodes="${SLURM_STEP_NUM_NODES:-${SLURM_NNODES:-1}}",
    task="${SLURM_PROCID:-0}",
    tasks="${SLURM_STEP_NUM_TASKS:-${SLURM_NTASKS:-1}}",
    local="${SLURM_LOCALID:-0}",
    attempt="${SLURM_JOB_ID:-0}-${SLURM_RESTART_COUNT:-0}",
    restarts="${SLURM_RESTART_COUNT:-0}",
    log="log-*_${SLURM_JOB_ID:-0}_${SLURM_RESTART_COUNT:-0}*.out",  # as batch.sh has srun write it
    # NeMo-Run's srun has --kill-on-bad-exit=1, which is right where a task dies without a word.
    requeues=True,
    signals_all=True,
    ends_all=True,
)


def fill_home(plan: Plan, home: str) -> Plan:
    """The same plan with the home directory of the login node in all its texts: paths, variables, configuration."""
    filled: Plan = fill(plan, {HOME: home.rstrip("/")})
    return filled
