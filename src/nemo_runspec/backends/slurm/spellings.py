"""Spellings that a profile may use and sbatch or NeMo-Run would not take as they are."""

from __future__ import annotations

import re
from typing import Any

from nemo_runspec.backends.slurm.paths import JOB_DIR

_VARIABLE = r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})"
_PLAIN = re.compile(rf"(?!#)(?:[A-Za-z0-9_@%+=:,./#-]|{_VARIABLE})+", re.ASCII)
_SPECIAL = re.compile(rf'["`\\]|(?!{_VARIABLE})\$', re.ASCII)


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


def shell_word(text: str) -> str:
    """Text as one word of the batch script, where the cluster's shell fills in `$NAME`, `${NAME}` and `~/`.

    NeMo-Run 0.11.1 puts image and mounts on the `srun` line as they are.
    """
    if text.startswith("~/"):
        text = "$HOME" + text[1:]
    if _PLAIN.fullmatch(text):
        return text
    lead = JOB_DIR if text.startswith(JOB_DIR) else ""
    return lead + '"' + _SPECIAL.sub(r"\\\g<0>", text[len(lead) :]) + '"'
