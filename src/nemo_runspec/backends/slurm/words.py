"""Spellings that a profile may use and sbatch or NeMo-Run would not take as they are."""

from __future__ import annotations

import re
from typing import Any


def exclusive(value: Any) -> bool | str | None:
    """NeMo-Run writes `--exclusive=False`, which Slurm refuses; only None leaves the option out."""
    if isinstance(value, str) and value.lower() in ("true", "false", ""):
        return True if value.lower() == "true" else None
    return value or None


def snake(option: str) -> str:
    """An sbatch option as NeMo-Run names it: `--mail-user` as `mail_user`."""
    return option.lstrip("-").replace("-", "_")


def job_id(text: str) -> str:
    """A Slurm job id, out of a NeMo-Run handle (`slurm_tunnel://nemo_run/1234/…`) where it is one."""
    return text.partition("://")[2].split("/")[1] if re.match(r"\w+://[^/]*/.", text) else text


TEXTS = (
    "account", "qos", "job_name_prefix", "mem", "mem_per_gpu", "mem_per_cpu", "gres", "constraint", "exclude",
    "network", "array", "signal", "comment", "container_image", "setup_lines", "host", "user", "identity",
)  # fmt: skip
"""Keys whose values are text."""

ONE_LINE = (
    *(key for key in TEXTS if key != "setup_lines"), "partition", "run_partition", "batch_partition",
    "build_partition", "remote_job_dir", "mounts", "container_env", "srun_args", "additional_parameters",
)  # fmt: skip
"""Keys whose values, lists and tables included, stand on one line of a script."""
