"""`batch.sh`: what the batch shell does around the one `srun` of a job; it lies beside the batch script.

The batch script is NeMo-Run's text to the byte. The only room in it that is ours is `setup_lines`, whose first line
sources `batch.sh`, before the profile's own lines. It runs on the job's first node, outside any container, and goes on
in `slurm.py` (`jobside/`), the process that Slurm signals from then on: that runs the batch script once more, in a
shell in which `srun` is a function, and decides what becomes of the job.
"""

from __future__ import annotations

from typing import Any

from nemo_runspec.artifacts.store import versions_of
from nemo_runspec.backends.base import RenderedFile
from nemo_runspec.backends.slurm.arguments import BATCH_LINES, job_name, job_script
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.health import health_files, health_seconds
from nemo_runspec.backends.slurm.signals import lead_of, name_of
from nemo_runspec.backends.slurm.spellings import shell_word
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.script.quoting import json_page, quote

VERSIONS = "versions.sh"
"""Of tasks of an array that are jobs of their own, each has one in its directory."""

NEEDS_PYTHON = ("resume", "retries", "stall_timeout", "health_check")
"""Keys of a profile that take a python3 on nodes: a batch script without one does the least that a job needs."""


def batch_files(plan: Plan) -> tuple[RenderedFile, ...]:
    """`batch.sh`, and what it needs beside it."""
    return (
        RenderedFile("batch script's values", BATCH_LINES, batch_text(plan)),
        *version_files(plan),
        *health_files(plan),
    )


def version_files(plan: Plan) -> tuple[RenderedFile, ...]:
    """What is registered in the end: the versions, as its shell sees them; no file where there are none."""
    paths = [shell_word(path) for path in version_paths(plan)]
    return (RenderedFile("versions", VERSIONS, f"nemotron_versions=({' '.join(paths)})\n"),) if paths else ()


def version_paths(plan: Plan) -> list[str]:
    """The versions of artifacts that a job makes, as the login node sees them."""
    storage = target_of(plan, SlurmTarget).storage(plan.job_dir)
    return [found for path in versions_of(plan) if (found := storage.source_of(path))]


def batch_text(plan: Plan, *, members: bool = False, ends_all: bool = False) -> str:
    """`batch.sh`. As `batch_values`."""
    own = "$nemotron_root/members/$SLURM_ARRAY_TASK_ID" if members else "$nemotron_root"
    lines = (
        "# Sourced by the batch script: this job's values. What is done with them is in slurm.py.",
        f"nemotron_root={plan.job_dir}",
        f"nemotron_own={own}",
        f"nemotron_script={quote(job_script(plan))}",
        f"nemotron_needs={quote(', '.join(needs_python(plan)))}",
        f"nemotron_values={quote(json_page(batch_values(plan, members=members, ends_all=ends_all)))}",
        '. "$nemotron_root/slurm.sh"',
    )
    return "\n".join(lines) + "\n"


def needs_python(plan: Plan) -> list[str]:
    """Settings of this job that take a python3 on the nodes of Slurm, beside any container."""
    target = target_of(plan, SlurmTarget)
    return [name for name in NEEDS_PYTHON if getattr(target, name)]


def batch_values(plan: Plan, *, members: bool = False, ends_all: bool = False) -> dict[str, Any]:
    """What the batch script's supervisor is told of a job (`jobside.job.BatchJob`).

    Args:
        members: of an array whose tasks are jobs of their own. `ends_all`: one of them that fails ends all others.
    """
    target = target_of(plan, SlurmTarget)
    return {
        "name": job_name(plan),
        "script": job_script(plan),
        "retries": target.retries,
        "resume": target.resume,
        "max_restarts": target.max_restarts,
        "signal": name_of(target.signal),
        "lead": lead_of(target.signal),
        "health_seconds": health_seconds(plan),
        "members": members,
        "ends_all": ends_all,
    }
