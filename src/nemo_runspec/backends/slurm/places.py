"""Where a Slurm job lies, and the holes for what only the cluster knows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nemo_runspec import paths

HOME = "@HOME@"
"""Stands for the home directory on the other side of an SSH tunnel: a named hole, filled when a job is submitted.

It has no character a shell or Slurm reads specially, so that filling it changes nothing else in a text.
"""

HOST = "@HOST@"
"""Stands for a login node that the profile does not name yet: a named hole."""

JOB_DIR = "/$nemo_run"
"""What NeMo-Run replaces by the job's directory at the front of a mount's source."""

HOST_REMEDY = 'host = "login.cluster.example.com"'


def run_dir(env: Mapping[str, Any]) -> str:
    """`remote_job_dir` as the cluster names it: absolute, or below `HOME` where only the cluster knows it."""
    named = str(env.get("remote_job_dir") or "").rstrip("/")
    if env.get("tunnel") == "ssh":
        return re.sub(r"^~(?=/|$)", HOME, named) or f"{HOME}/.nemotron/run"
    return str(paths.expand_user(named, "remote_job_dir") if named else paths.run_dir())
