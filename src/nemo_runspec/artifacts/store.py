"""The file store of artifacts: `<root>/<artifact>/<version>/`, and `latest`, a link to the newest version.

A version is named after the job that made it, and registered by that job itself, where it ran, when it has ended well
(`jobside/artifacts.py`). On this machine a plan names the version that it will read; elsewhere that
is the newest when the job starts, which the job finds out, keeps to, and reports (`script/inputs.sh`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nemo_runspec.plans.model import Artifact, Plan

LATEST = "latest"

_PLAIN = re.compile(r"[A-Za-z0-9_./@%=+-]+")
"""Paths whose text is the same in a shell, in YAML and for sed; others are read through `latest`."""


def version_path(root: str, artifact: str, job: str) -> str:
    """Where a job writes an artifact."""
    return f"{root}/{artifact}/{job}"


def latest_path(root: str, artifact: str) -> str:
    """Where the newest version is read, whichever it is."""
    return f"{root}/{artifact}/{LATEST}"


def resolve_latest(root: str, artifact: str) -> str | None:
    """On this machine: the newest whole version, or None. Its path begins as `root` does: that is what is mounted."""
    link = Path(latest_path(root, artifact))
    try:
        if not link.is_symlink() or not link.is_dir():
            return None
        name = str(link.readlink())
        return f"{root}/{artifact}/{name}" if "/" not in name else str(link.resolve())
    except OSError:
        return None


def versions_of(plan: Plan) -> tuple[str, ...]:
    """The folders that become the newest version of their artifact once the job has ended well.

    What the job does not write stays as it was, and so does a folder that is not the store's: an output whose path the
    user named has no versions.
    """
    return tuple(str(artifact.path) for artifact in plan.produces if _is_version(artifact, plan.name))


def newest_inputs(plan: Plan) -> dict[str, str]:
    """Input → the path of the newest version, of those that are found out when the job starts."""
    stored = {a.name: a.path for a in plan.consumes if a.path and a.artifact and _is_newest(a.path, a.artifact)}
    return {name: path for name, path in stored.items() if _PLAIN.fullmatch(path)}


def known_inputs(plan: Plan) -> dict[str, str]:
    """Input → its path, of those that the plan itself names."""
    return {a.name: a.path for a in plan.consumes if a.path and not (a.artifact and _is_newest(a.path, a.artifact))}


def _is_newest(path: str, artifact: str) -> bool:
    return path.endswith(latest_path("", artifact))


def _is_version(artifact: Artifact, job: str) -> bool:
    """True where the output lies where the store puts that job's version of it."""
    return bool(
        artifact.path and artifact.artifact and artifact.path.endswith(version_path("", artifact.artifact, job))
    )
