"""The file store of artifacts: `<root>/<artifact>/<version>/`, and `latest`, a link to the newest version.

A version is named after the job that made it, and registered by that job itself, where it ran, when it has ended well
(`jobside/registration.py`). On this machine a plan names the version that it will read; elsewhere that
is the newest when the job starts, which the job finds out, keeps to, and reports.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_runspec.errors import UserError

if TYPE_CHECKING:
    from nemo_runspec.plans.model import Artifact, Plan

LATEST = "latest"

BUCKETS = "s3://"
"""How the root of a store begins that is in a bucket."""

_ADDRESS = re.compile(r"(?!s3://)[A-Za-z][A-Za-z0-9+.-]*:/")

_PLAIN = re.compile(r"[A-Za-z0-9_./@%=+-]+")
"""Paths whose text is the same in a shell, in YAML and for sed; others are read through `latest`."""


def refuse_address(root: str) -> None:
    """Raises `UserError` for the root of a store that is neither a folder nor in a bucket."""
    if _ADDRESS.match(root):
        raise UserError(
            f"[artifacts] root = '{root}' is neither a folder nor {BUCKETS}BUCKET/PREFIX",
            remedy="another service that speaks S3 (Google's, MinIO) is named by its endpoint: endpoint = 'https://…'",
        )


def reference(artifact: str, version: str | None) -> str:
    """The reference that an input's name and version make; no version is the newest one, and a number is `v3`."""
    return f"{artifact}:{f'v{version}' if version and version.isdigit() else version or LATEST}"


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
        if not link.is_symlink() or not link.exists():
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


def uses_bucket(plan: Plan) -> bool:
    """True if a job reads or writes artifacts in a bucket: it needs keys for that."""
    root = str((plan.run.get("artifacts") or {}).get("root") or "")
    return root.startswith(BUCKETS) and any(artifact.artifact for artifact in (*plan.consumes, *plan.produces))


def newest_inputs(plan: Plan) -> dict[str, str]:
    """Input → the link that leads to the version it reads, of those that are found out when the job starts."""
    stored = {a.name: a.path for a in plan.consumes if a.path and _is_followed(a)}
    return {name: path for name, path in stored.items() if _PLAIN.fullmatch(path)}


def followed_inputs(plan: Plan) -> list[Artifact]:
    """The inputs that are a link of the store so far."""
    return [a for a in plan.consumes if a.path and _is_followed(a)]


def known_inputs(plan: Plan) -> dict[str, str]:
    """Input → its path, of those that the plan itself names."""
    return {a.name: a.path for a in plan.consumes if a.path and not _is_followed(a)}


def _is_followed(artifact: Artifact) -> bool:
    """True if an input is a link of the store, which leads to a version where the job runs."""
    path, name = artifact.path or "", artifact.artifact
    return bool(name) and path.endswith(f"/{name}/{artifact.version or LATEST}")


def _is_version(artifact: Artifact, job: str) -> bool:
    """True where the output lies where the store puts that job's version of it."""
    return bool(
        artifact.path and artifact.artifact and artifact.path.endswith(version_path("", artifact.artifact, job))
    )
