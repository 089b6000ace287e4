"""Inputs and outputs of a plan: which artifact, where it lies, whether it is there, what makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nemo_runspec.artifacts.store import reference, refuse_address, version_path
from nemo_runspec.artifacts.types import Types
from nemo_runspec.errors import UserError
from nemo_runspec.paths import expand_user
from nemo_runspec.planning.planned import PinnedVersion
from nemo_runspec.planning.references import found_here, found_there, reference_of
from nemo_runspec.plans.model import BUNDLED, HUB, Artifact
from nemo_runspec.runspec import ArtifactSpec, Runspec

MAKE = ("if-missing",)


@dataclass(frozen=True, slots=True)
class SettledVersions:
    """Versions that are known before a plan is made. As `PlanRequest.versions` and `PlanRequest.pinned`."""

    jobs: Mapping[str, str] = field(default_factory=dict)
    pinned: Mapping[str, PinnedVersion] = field(default_factory=dict)


def inputs_of(
    spec: Runspec,
    run: Mapping[str, Any],
    root: str,
    settled: SettledVersions,
    *,
    local: bool,
    later: bool = False,
) -> tuple[Artifact, ...]:
    """The inputs the recipe declares, with the path the job will read.

    Args:
        settled: which versions are read, where that is known.
        later: whether versions are looked up later: in a bucket when the job starts, at W&B when it is submitted.

    Raises:
        UserError: a version that there is not, or of another type; its key says which input.
    """
    found = []
    for item in spec.consumes:
        try:
            table, here = run.get(item.name) or {}, local and not later
            found.append(_input(item, table, root, settled, local=local, here=here))
        except UserError as error:
            raise UserError(error.what, where=error.where, remedy=error.remedy, key=f"run.{item.name}") from None
    return tuple(found)


def outputs_of(spec: Runspec, run: Mapping[str, Any], root: str, job: str, *, local: bool) -> tuple[Artifact, ...]:
    """The outputs the recipe declares, with the path the job will write."""
    return tuple(_output(item, run.get(item.name) or {}, root, job, local=local) for item in spec.produces)


def with_checkers(artifacts: tuple[Artifact, ...]) -> tuple[Artifact, ...]:
    """Each with the checker of its type. Raises `UserError` for a broken file of types."""
    types = Types.load() if artifacts else Types(())
    return tuple(replace(each, check=types.checker(each.type)) for each in artifacts)


def settled_root(root: str, *, local: bool) -> str:
    """The folder of the file store as jobs name it; '' for none that is named.

    Raises:
        UserError: it means another folder to each job, or begins with a user there is not.
    """
    refuse_address(root)
    if local and root:
        return str(expand_user(root, "[artifacts] root").absolute())
    if root and not root.startswith("/"):
        raise UserError(
            f"[artifacts] root = '{root}' is no absolute path: where the job runs, each would mean a folder of its own",
            remedy="write the whole path, as jobs see it, such as /lustre/me/artifacts",
        )
    return root


def _input(
    spec: ArtifactSpec,
    table: Mapping[str, Any],
    root: str,
    settled: SettledVersions,
    *,
    local: bool,
    here: bool,
) -> Artifact:
    named = table.get("path")
    # A path that was named is the user's own: nothing is made in its place.
    artifact, wanted = (None, "") if named else reference_of(table)
    path, version = named, None
    ready: bool | None = None
    if path and path.startswith((BUNDLED, HUB)):
        ready = path.startswith(BUNDLED) or None
    elif path:
        path = _here(path) if local else path
        ready = Path(path).exists() if local else None
    elif artifact and spec.name in settled.jobs:
        path = version_path(root, artifact, settled.jobs[spec.name])
    elif artifact and (pin := settled.pinned.get(reference(artifact, wanted))) is not None:
        path, version = pin.path, pin.version
        ready = pin.is_fetched or (Path(path).exists() if local else None)
    elif artifact:
        found = found_here(spec, root, artifact, wanted) if here else found_there(root, artifact, wanted)
        path, version, ready = found.path, found.version, found.ready
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
        make=None if named or wanted else table.get("make"),
        version=version,
    )


def _output(spec: ArtifactSpec, table: Mapping[str, Any], root: str, job: str, *, local: bool) -> Artifact:
    artifact, named = table.get("artifact"), table.get("path")
    path = (
        (_here(named) if local and not named.startswith(BUNDLED) else named)
        if named
        else (version_path(root, artifact, job) if artifact else None)
    )
    return Artifact(name=spec.name, type=spec.type, artifact=artifact, path=path, required=spec.required)


def _here(path: str) -> str:
    """A path of this machine, whole."""
    return str(expand_user(path, "path").absolute())
