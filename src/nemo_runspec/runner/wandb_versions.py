"""Versions that inputs name, looked up at W&B before a plan is run: each is pinned, and the plan is made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_runspec.artifacts.registry import Registry, Version
from nemo_runspec.artifacts.store import BUCKETS, reference
from nemo_runspec.artifacts.wandb import unpinned
from nemo_runspec.backends import get_backend
from nemo_runspec.errors import UserError
from nemo_runspec.planning.build import build_plan
from nemo_runspec.planning.planned import PinnedVersion, Planned, PlanRequest
from nemo_runspec.planning.references import require_type
from nemo_runspec.plans.model import Artifact, Plan

if TYPE_CHECKING:
    from nemo_runspec.remote.wandb_store import WandbStorage


def with_versions_pinned(plan: Plan) -> tuple[Plan, Mapping[str, PinnedVersion]]:
    """The plan with what W&B says of its inputs, by one question; and what a plan made again needs to know of it.

    Raises:
        UserError: there is no such version, it is of a type that the input does not take, it lies where the job cannot
            read it, or W&B cannot be asked.
    """
    wanted = unpinned(plan)
    if not wanted:
        return plan, {}
    from nemo_runspec.remote.artifact_stores import readable_storage
    from nemo_runspec.remote.wandb_store import WandbStorage

    storage = WandbStorage(plan.run["wandb"], readable_storage(plan))
    registry = Registry(storage, sorted({str(a.artifact) for a in wanted}))
    pinned: dict[str, PinnedVersion] = {}
    missing = set()
    for artifact in wanted:
        try:
            found = _found(registry, storage, plan, artifact)
        except UserError as error:
            source = plan.sources.get(f"run.{artifact.name}.artifact")
            raise error.at(source.place() if source else None) from None
        if found is None:
            missing.add(artifact.name)
        else:
            pinned[reference(str(artifact.artifact), artifact.version)] = found
    return replace(plan, consumes=tuple(_seen(plan, a, pinned, missing) for a in plan.consumes)), pinned


def pinned_again(request: PlanRequest, planned: Planned) -> Planned:
    """The plan made again with what W&B says of its inputs. Raises as `with_versions_pinned`."""
    _, pinned = with_versions_pinned(planned.plan)
    return build_plan(replace(request, pinned=pinned)) if pinned else planned


def refuse_unpinned(plan: Plan) -> None:
    """Raises `UserError` for a plan that is run as it was saved, before W&B was asked about its inputs."""
    names = [reference(str(a.artifact), a.version) for a in unpinned(plan)]
    if names:
        raise UserError(
            f"the plan was saved before W&B was asked what {', '.join(names)} is",
            remedy="save it again with --resolve: --dry-run --resolve --out FILE",
        )


def _found(registry: Registry, storage: WandbStorage, plan: Plan, artifact: Artifact) -> PinnedVersion | None:
    """The version; None for one that is made first."""
    if artifact.make and not registry.versions(str(artifact.artifact)):
        return None
    version = registry.get(reference(str(artifact.artifact), artifact.version))
    require_type(artifact.name, artifact.type, version.type, version.reference)
    return _pin(plan, artifact, version, storage.place_of(version))


def _pin(plan: Plan, artifact: Artifact, version: Version, path: str) -> PinnedVersion:
    word = version.reference.partition(":")[2]
    root = str(plan.run["artifacts"]["root"])
    if not path.startswith(BUCKETS):
        return PinnedVersion(path, word)
    folder, _, job = path.rpartition("/")
    if folder != f"{root.rstrip('/')}/{artifact.artifact}":
        raise UserError(
            f"{version.reference} lies at {path}, which is not in this job's store ({root})",
            remedy=f"nemotron artifacts pull {version.reference} DIR, and run.{artifact.name}=DIR",
        )
    # The job fetches it, by the name of the job that made it.
    return PinnedVersion(f"{str(artifact.path).rpartition('/')[0]}/{job}", job, is_fetched=True)


def _seen(plan: Plan, artifact: Artifact, pinned: Mapping[str, PinnedVersion], missing: set[str]) -> Artifact:
    if artifact.name in missing:
        return replace(artifact, ready=False)
    found = pinned.get(reference(str(artifact.artifact), artifact.version)) if artifact.artifact else None
    if found is None:
        return artifact
    ready = found.is_fetched or (None if get_backend(plan.executor).remote else Path(found.path).exists())
    return replace(artifact, path=found.path, version=found.version, ready=ready)
