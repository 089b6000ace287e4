"""Inputs and outputs of a plan: which artifact, where it lies, whether it is there, what makes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_runspec.artifacts.store import latest_path, resolve_latest, version_path
from nemo_runspec.errors import UserError
from nemo_runspec.paths import expand_user
from nemo_runspec.plans.model import Artifact
from nemo_runspec.runspec import ArtifactSpec, Runspec

MAKE = ("if-missing",)


def inputs_of(
    spec: Runspec, run: Mapping[str, Any], root: str, versions: Mapping[str, str], *, local: bool
) -> tuple[Artifact, ...]:
    """The inputs the recipe declares, with the path the job will read.

    Args:
        versions: artifact → the job whose version of it is read, where that is settled.
    """
    return tuple(_input(item, run.get(item.name) or {}, root, versions, local=local) for item in spec.consumes)


def outputs_of(spec: Runspec, run: Mapping[str, Any], root: str, job: str, *, local: bool) -> tuple[Artifact, ...]:
    """The outputs the recipe declares, with the path the job will write."""
    return tuple(_output(item, run.get(item.name) or {}, root, job, local=local) for item in spec.produces)


def settled_root(root: str, *, local: bool) -> str:
    """The folder of the file store as jobs name it; '' for none that is named.

    Raises:
        UserError: it means another folder to each job, or begins with a user there is not.
    """
    if local and root:
        return str(expand_user(root, "[artifacts] root").absolute())
    if root and not root.startswith("/"):
        raise UserError(
            f"[artifacts] root = '{root}' is no absolute path: where the job runs, each would mean a folder of its own",
            remedy="write the whole path, as jobs see it, such as /lustre/me/artifacts",
        )
    return root


def _input(
    spec: ArtifactSpec, table: Mapping[str, Any], root: str, versions: Mapping[str, str], *, local: bool
) -> Artifact:
    named = table.get("path")
    # A path that was named is the user's own: nothing is made in its place.
    artifact, path = None if named else table.get("artifact"), named
    ready: bool | None = None
    if path:
        path = _here(path) if local else path
        ready = Path(path).exists() if local else None
    elif artifact and artifact in versions:
        path = version_path(root, artifact, versions[artifact])
    elif artifact:
        found = resolve_latest(root, artifact) if local else None
        path = found or latest_path(root, artifact)
        ready = found is not None if local else None
    elif local:
        ready = False
    return Artifact(
        name=spec.name,
        type=spec.type,
        artifact=artifact,
        path=path,
        ready=ready,
        required=spec.required,
        recipe=table.get("recipe") or spec.recipe,
        config=table.get("config"),
        make=None if named else table.get("make"),
    )


def _output(spec: ArtifactSpec, table: Mapping[str, Any], root: str, job: str, *, local: bool) -> Artifact:
    artifact, named = table.get("artifact"), table.get("path")
    path = (_here(named) if local else named) if named else (version_path(root, artifact, job) if artifact else None)
    return Artifact(name=spec.name, type=spec.type, artifact=artifact, path=path, required=spec.required)


def _here(path: str) -> str:
    """A path of this machine, whole."""
    return str(expand_user(path, "path").absolute())
