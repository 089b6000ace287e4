"""Where a Slurm job lies, and placeholders for what only the cluster knows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from nemo_runspec import paths
from nemo_runspec.placeholders import TextPlaceholder, fill

T = TypeVar("T")

HOME = TextPlaceholder("@HOME@")
"""The home directory on the other side of an SSH tunnel.

Its name has no character that a shell or Slurm reads specially, so that filling it changes nothing else in a text.
"""

HOST = TextPlaceholder("@HOST@", "the login node, which the profile does not name yet")

JOB_DIR = "/$nemo_run"
"""What NeMo-Run replaces by the job's directory at the front of a mount's source."""

PATH = re.compile(r"[A-Za-z0-9_@+=./-]+")
"""What a directory's name may hold: Slurm reads it where no shell fills in a variable."""

HOST_REMEDY = 'host = "login.cluster.example.com"'


def run_dir(env: Mapping[str, Any]) -> str:
    """`remote_job_dir` as the cluster names it: absolute, or below `HOME` where only the cluster knows it."""
    there = directory_of(env, "remote_job_dir")
    return there or (f"{HOME}/.nemotron/run" if env.get("tunnel") == "ssh" else str(paths.run_dir()))


def directory_of(env: Mapping[str, Any], key: str) -> str:
    """The directory that a key names, as the cluster names it, perhaps below `HOME`; '' where the key is not set."""
    named = str(env.get(key) or "").rstrip("/")
    if env.get("tunnel") == "ssh":
        return re.sub(r"^~(/+|$)", lambda match: f"{HOME}{match[1][:1]}", named)
    return str(paths.expand_user(named, key)) if named else ""


def fill_home(value: T, home: str) -> T:
    """The same value, such as a plan, with the home directory of the login node in all its texts."""
    filled: T = fill(value, {HOME: home.rstrip("/")})
    return filled
