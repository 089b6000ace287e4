"""Which store a command means: that of a profile's jobs, one that is named, or that of `[artifacts] root`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nemo_runspec.console import note
from nemo_runspec.errors import UserError

if TYPE_CHECKING:
    from nemo_runspec.artifacts.registry import ArtifactStorage, Registry
    from nemo_runspec.artifacts.store_changes import WritableStorage


def opened(profile: str | None, root: str | None, names: Sequence[str] = ()) -> Registry:
    """The registry of the store that is meant.

    Args:
        names: only these artifacts are looked at.

    Raises:
        UserError: both are named, or it cannot be reached from here.
    """
    from nemo_runspec.artifacts.registry import Registry

    return Registry(storage(profile, root), names)


def storage(profile: str | None, root: str | None) -> ArtifactStorage:
    """The store that is meant. Raises as `opened`."""
    if profile and root:
        raise UserError("--profile and --root exclude each other", remedy="leave one of them out")
    if profile:
        from nemo_runspec.remote.artifact_stores import storage_of_profile

        return storage_of_profile(profile)
    from nemo_runspec.remote.own_store import storage_at

    return storage_at(root)


def writable(profile: str | None, root: str | None) -> WritableStorage:
    """The store that is meant, to be changed. Raises as `opened`, and where it can only be read."""
    from nemo_runspec.artifacts.store_changes import WritableStorage

    found = storage(profile, root)
    if not isinstance(found, WritableStorage):
        raise UserError(
            f"{found.name} can only be read from here", remedy="run the same command there, with --root FOLDER"
        )
    return found


def tell_problems(registry: Registry) -> None:
    """Says which manifests could not be read, on the error stream."""
    for line in registry.problems:
        note(f"warning: {line}")


def tell_unregistered(registry: Registry, profile: str | None) -> None:
    """Says on the error stream which jobs have made something for that store that is not registered."""
    from nemo_runspec.paths import jobs_dir
    from nemo_runspec.records.unregistered import marked

    if not marked(jobs_dir()):
        return
    from nemo_runspec.planning.codec import load_plan
    from nemo_runspec.records import JobStore
    from nemo_runspec.remote.registration import unregistered_jobs

    store = JobStore()
    for record in unregistered_jobs(store):
        plan = load_plan(store.folder(record.name) / "plan.json")
        if str(plan.run["artifacts"]["root"]) == registry.storage.root or (profile and record.profile == profile):
            names = ", ".join(each.artifact for each in plan.produces if each.artifact)
            note(f"produced, not registered: {names} of {record.name}; nemotron artifacts register {record.name}")
