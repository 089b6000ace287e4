"""Questions to a login node before a job: one script, one answer.

The job that a profile alone would make is part of it: Slurm is asked about the very options it would be sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.checks import JOB_DIR
from nemo_runspec.backends.slurm.cluster import FIELD, PRELUDE, program
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.values import HOME, run_dir, shell_word
from nemo_runspec.lines import text_lines
from nemo_runspec.plans.model import Bundle, Launch, Package, Plan, PythonEnv, RecipeRef, Resources
from nemo_runspec.plans.target import target_of
from nemo_runspec.profiles.common import nodes_of, processes_per_node
from nemo_runspec.script.quoting import assignments
from nemo_runspec.transport.registry import ACCEPT, Image, image_of

SCRIPT = "preflight/preflight.sh"

_NAME = "nemotron-doctor"


@dataclass(frozen=True)
class Draft:
    """A job to be tested, never to be run.

    Args:
        role: what it is for: `run`, `batch`, or both, as `run, batch`.
        script: its batch script.
        unbilled: the same without account and QoS; '' where it names neither.
    """

    role: str
    partition: str | None
    script: str
    unbilled: str = ""


def plan_of(env: Mapping[str, Any], mode: str) -> Plan:
    """A plan of no recipe: the profile's shape under torchrun.

    Raises:
        UserError: values that no job can be made of.
    """
    backend = get_backend("slurm")
    gpus = int(env.get("gpus_per_node") or 0)
    resources = Resources(nodes_of(env), gpus, processes_per_node(env))
    target = backend.target_alone(env, mode, name=_NAME)
    return Plan(
        name=_NAME, recipe=RecipeRef("doctor", "doctor", ""), config_name=None, executor="slurm", mode=mode,
        profile=None, env_file=None, job_dir=backend.job_dir(env, _NAME), launch=Launch("torchrun", "main.py"),
        python=PythonEnv(), resources=resources, env=(), secrets=(), bundle=Bundle(), package=Package(),
        consumes=(), produces=(), run={}, config={}, sources={}, target=target,
    )  # fmt: skip


def drafts_of(env: Mapping[str, Any]) -> tuple[Draft, ...]:
    """One for each way to run that differs: attached and detached, the same where nothing is said."""
    found: dict[str, Draft] = {}
    for mode in ("run", "batch"):
        plan = plan_of(env, mode)
        made = draft(plan, mode)
        same = found.get(made.script)
        found[made.script] = replace(same, role=f"{same.role}, {mode}") if same else made
    return tuple(found.values())


def draft(plan: Plan, role: str) -> Draft:
    """The draft of a plan, a real one perhaps."""
    target = target_of(plan, SlurmTarget)
    unbilled = options(replace(plan, target=replace(target, account=None, qos=None)))
    return Draft(role, target.partition, options(plan), unbilled if target.account or target.qos else "")


def options(plan: Plan) -> str:
    """The head of a plan's batch script, which is all that sbatch reads, as a script of its own."""
    from nemo_runspec.backends.slurm.render import render_sbatch

    lines = [line for line in text_lines(render_sbatch(plan)) if line.startswith("#SBATCH ")]
    return "\n".join(("#!/bin/bash", *lines, "true", ""))


NEEDED = (
    "bash", "tar", "gzip", "timeout", "stat", "sed", "grep", "awk", "tail", "head", "find", "mv", "mkdir", "rm", "id",
)  # fmt: skip
"""Programs that our scripts use on a login node. Nothing of ours uses rsync, git or python there."""

SLURM = ("sbatch", "squeue", "scancel", "sinfo", "scontrol")
"""Slurm's, without which no job is submitted and followed there. `srun` runs in the job."""

USEFUL = ("sacct", "sacctmgr", "srun", "flock", "curl", "enroot", "quota", "lfs", "python")

SECONDS = 10
"""Each question's own limit, in seconds."""

TIMEOUT = 180.0


@dataclass(frozen=True)
class LoginRequest:
    """What is asked of a login node.

    Args:
        folder: `remote_job_dir`; may begin with `HOME`.
        image: the profile's, None without one.
        mounts: sources as the profile writes them.
    """

    folder: str
    drafts: tuple[Draft, ...]
    mounts: tuple[str, ...] = ()
    image: Image | None = None
    account: str = ""
    qos: str = ""

    def script(self, function: str = "examine", *more: str) -> str:
        """What asks it, with all that needs. `more`: further lines before it."""
        return "\n".join((PRELUDE, *self._settings(), *more, program(SCRIPT, function)))

    def _settings(self) -> Iterable[str]:
        drafts = [text for draft in self.drafts for text in (draft.role, draft.script, draft.unbilled)]
        image = self.image
        settings: dict[str, str | Sequence[str]] = {
            "seconds": str(SECONDS),
            "field": FIELD,
            "folder": self.folder,
            "image_path": shell_word(image.path) if image and image.path else "",
            "registry": image.url if image else "",
            "scope": image.scope if image else "",
            "accept": ACCEPT,
            "account": self.account,
            "qos": self.qos,
            "tools": (*NEEDED, *SLURM, *USEFUL),
            "drafts": drafts,
            "sources": list(map(shell_word, self.mounts)),
        }
        yield assignments(settings)
        yield f'folder=${{folder//{HOME}/"$HOME"}}'
        yield f'sources=("${{sources[@]//{HOME}/$HOME}}")'


def login_request(env: Mapping[str, Any]) -> LoginRequest:
    """What there is to ask about a profile."""
    image = env.get("container_image")
    account, qos = (str(env.get(key) or "") for key in ("account", "qos"))
    mounts = sources(env.get("mounts") or ())
    return LoginRequest(run_dir(env), drafts_of(env), mounts, image_of(str(image)) if image else None, account, qos)


def sources(mounts: Sequence[Any]) -> tuple[str, ...]:
    """Where mounts come from, each once. What lies in the job's own directory is not there yet, nor is a clone."""
    found = [str(mount).split(":")[0] for mount in mounts if "auto_mount:" not in str(mount)]
    return tuple(dict.fromkeys(source for source in found if not re.match(rf"{re.escape(JOB_DIR)}\b", source)))
