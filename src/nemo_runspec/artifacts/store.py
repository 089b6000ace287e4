"""The file store of artifacts: `<root>/<artifact>/<version>/`, and `latest`, a link that is moved when a job succeeds.

A version is named after the job that made it. A consumer on another machine reads through `latest`; on this machine a
plan names the version itself, so that a later run of the producer does not change a job that was planned before.
"""

from __future__ import annotations

from pathlib import Path

from nemo_runspec.plan.model import Plan

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
    target = link.resolve()
    return str(target) if link.is_symlink() and target.is_dir() else None


def register(plan: Plan) -> list[str]:
    """After a local job has succeeded: points `latest` of everything it produced at its version.

    Returns the paths that are now the newest. What the job did not write is left as it was.
    """
    done = []
    for artifact in plan.produces:
        if artifact.path is None or not Path(artifact.path).is_dir():
            continue
        version = Path(artifact.path)
        scratch = version.parent / f".{LATEST}.{plan.name}"
        scratch.unlink(missing_ok=True)
        scratch.symlink_to(version.name)
        scratch.replace(version.parent / LATEST)
        done.append(str(version))
    return done
