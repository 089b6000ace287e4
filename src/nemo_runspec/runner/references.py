"""Versions that inputs name, where a job elsewhere reads them: asked about before it is submitted."""

from __future__ import annotations

from dataclasses import replace

from nemo_runspec.artifacts.registry import Registry
from nemo_runspec.artifacts.store import BUCKETS, LATEST, newest_inputs
from nemo_runspec.backends import get_backend
from nemo_runspec.errors import UserError
from nemo_runspec.planning.references import require_type
from nemo_runspec.plans.model import Artifact, Plan
from nemo_runspec.remote.artifact_stores import readable_storage


def with_versions_checked(plan: Plan) -> Plan:
    """The plan, once the versions that inputs name are held against the store, by one question.

    Of an input that names none, the type of what is the newest now is looked at, unless the job waits for others, which
    may make a newer one. Of a store in a bucket the plan then says whether they are there. One that is out of reach is
    the job's matter.

    Raises:
        UserError: there is no such version, or it is of a type that the input does not take; with its place.
    """
    in_bucket = str(plan.run["artifacts"]["root"]).startswith(BUCKETS)
    followed = newest_inputs(plan)
    waits = plan.waits_for_jobs
    settled = [a for a in plan.consumes if a.artifact and a.name in followed and (a.version or in_bucket)]
    newest = [a for a in plan.consumes if a.artifact and a.name in followed and a not in settled and not waits]
    named = [*settled, *newest]
    storage = readable_storage(plan) if named and (in_bucket or get_backend(plan.executor).remote) else None
    if storage is None:
        return plan
    registry = Registry(storage, sorted({str(a.artifact) for a in named}))
    for artifact in newest:
        _require_type(registry, plan, artifact)
    found = {a.name: _is_there(registry, plan, a) for a in settled}
    if not in_bucket:
        return plan
    return replace(plan, consumes=tuple(replace(a, ready=found.get(a.name, a.ready)) for a in plan.consumes))


def _is_there(registry: Registry, plan: Plan, artifact: Artifact) -> bool:
    if artifact.make and not registry.versions(str(artifact.artifact)):
        return False  # it is made first
    try:
        version = registry.get(f"{artifact.artifact}:{artifact.version or LATEST}")
        require_type(artifact.name, artifact.type, version.type, version.reference)
    except UserError as error:
        raise error.at(_place(plan, artifact)) from None
    return True


def _require_type(registry: Registry, plan: Plan, artifact: Artifact) -> None:
    try:
        newest = registry.newest(str(artifact.artifact))
    except UserError:
        return  # the store is out of reach
    if newest is None:
        return  # it is made first, or by another job
    try:
        require_type(artifact.name, artifact.type, newest.type, newest.reference)
    except UserError as error:
        raise error.at(_place(plan, artifact)) from None


def _place(plan: Plan, artifact: Artifact) -> str | None:
    source = plan.sources.get(f"run.{artifact.name}.artifact")
    return source.place() if source else None
