"""The file store of artifacts: `<root>/<artifact>/<version>/`, and `latest`, a link that is moved when a job succeeds.

A version is named after the job that made it. A consumer on another machine reads through `latest`; on this machine a
plan names the version itself, so that a later run of the producer does not change a job that was planned before.
"""

from __future__ import annotations

from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.planning.model import Artifact, Plan

LATEST = "latest"


def version_path(root: str, artifact: str, job: str) -> str:
    """Where a job writes an artifact."""
    return f"{root}/{artifact}/{job}"


def latest_path(root: str, artifact: str) -> str:
    """Where the newest version is read, whichever it is."""
    return f"{root}/{artifact}/{LATEST}"


def resolve_latest(root: str, artifact: str) -> str | None:
    """On this machine: the newest whole version, or None."""
    link = Path(latest_path(root, artifact))
    try:
        return str(link.resolve()) if link.is_symlink() and link.is_dir() else None
    except OSError:
        return None


def register(plan: Plan) -> list[str]:
    """After a local job has succeeded: points `latest` of everything it produced at its version.

    Returns the paths that are now the newest. What the job did not write is left as it was, and so are folders that
    are not the store's: an output whose path the user named has no versions.

    Raises:
        UserError: `latest` of one of them cannot be moved; that of the others has been.
    """
    done, problems = [], []
    for version in (Path(a.path) for a in plan.produces if a.path and _is_version(a, plan.name)):
        try:
            if version.is_dir():
                _point_at(version, version.parent / LATEST, plan.name)
                done.append(str(version))
        except OSError as error:
            problems.append(f"{version.parent / LATEST} cannot be pointed at {version.name}: {error.strerror}")
    if problems:
        raise UserError("; ".join(problems))
    return done


def _is_version(artifact: Artifact, job: str) -> bool:
    """True where the output lies where the store puts that job's version of it."""
    return bool(
        artifact.path and artifact.artifact and artifact.path.endswith(version_path("", artifact.artifact, job))
    )


def _point_at(version: Path, link: Path, job: str) -> None:
    scratch = link.with_name(f".{link.name}.{job}")
    scratch.unlink(missing_ok=True)
    try:
        scratch.symlink_to(version.name)
        scratch.replace(link)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
