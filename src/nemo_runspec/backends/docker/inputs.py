"""Checks a container's inputs: its mounts are paths of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nemo_runspec.backends.docker.fields import DockerTarget
from nemo_runspec.backends.mounted import outside
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of


def present(plan: Plan, paths: Sequence[str]) -> Mapping[str, bool | None]:
    """Each path of the job → whether it is there; None for a Docker volume and for what only the image may hold."""
    return {path: _is_there(outside(path, target_of(plan, DockerTarget).volumes)) for path in paths}


def _is_there(path: str | None) -> bool | None:
    return Path(path).exists() if path and path.startswith("/") else None
