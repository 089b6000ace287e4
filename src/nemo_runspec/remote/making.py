"""Jobs that make what another job reads: found again instead of submitted twice, and ended with what they are for."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from contextlib import suppress

from nemo_runspec.backends import get_backend
from nemo_runspec.errors import UserError
from nemo_runspec.jobs import JobRecord, JobStore
from nemo_runspec.planning.codec import load_plan
from nemo_runspec.planning.model import Artifact, Plan
from nemo_runspec.remote.refresh import refresh

NEEDS, MADE_FOR, MADE = "needs", "made_for", "made"
"""Keys of a handle: the jobs whose outputs a job waits for; the jobs that an output is made for; whether the job was
submitted for one of these."""


def made_by(store: JobStore, plan: Plan, artifact: Artifact) -> JobRecord | None:
    """The newest job that makes the artifact where the plan reads it, or has made it; None where there is none.

    Raises:
        UserError: its platform cannot be asked how it is, or does not know it now.
    """
    folder = posixpath.dirname(artifact.path or "")
    for entry in store.entries():
        if entry.recipe != artifact.recipe:
            continue
        record = store.read(entry)
        if isinstance(record, JobRecord) and _may_give(record) and _writes(store, record, plan, folder):
            now = refresh(store, [record])[0][0]
            if now.state == "unknown":
                raise UserError(
                    f"it cannot be known now whether {now.name} still makes '{artifact.artifact}': {now.reason}",
                    remedy=f"try again later; or nemotron jobs cancel {now.name}",
                )
            if _may_give(now) and (not now.over or _is_there(plan, f"{folder}/{now.name}")):
                return now
    return None


def relate(store: JobStore, needs: Sequence[str], name: str) -> None:
    """Writes down in the records of jobs what they are made for."""
    for maker in _known(store, needs):
        store.note(maker, handle={MADE_FOR: [*maker.handle.get(MADE_FOR, ()), name]})


def submitted_for_another(store: JobStore, maker: JobRecord) -> JobRecord:
    """Writes down that a job was submitted because another one needs what it makes: it ends with that one."""
    return store.note(maker, handle={MADE: True})


def only_for(store: JobStore, records: Sequence[JobRecord]) -> list[JobRecord]:
    """Jobs that were submitted to make inputs of these jobs alone, and are not over: nobody waits for them any more.

    One that its user submitted himself, and that was only found, is not among them.
    """
    ending = {record.name for record in records}
    names = dict.fromkeys(name for record in records for name in record.handle.get(NEEDS, ()))
    found = _known(store, (name for name in names if name not in ending))
    ours = [maker for maker in found if maker.handle.get(MADE) and not maker.over]
    return [maker for maker in ours if not (_waiting(store, maker) - ending)]


def waits_for(store: JobStore, records: Iterable[JobRecord]) -> list[JobRecord]:
    """Jobs that are not over and read what these jobs make: without them they never start."""
    names = dict.fromkeys(name for record in records for name in record.handle.get(MADE_FOR, ()))
    return [record for record in _known(store, names) if not record.over]


def not_made_by(store: JobStore, record: JobRecord) -> JobRecord | None:
    """The first job that was to make an input of this one and has ended without; None where there is none."""
    for maker in _known(store, record.handle.get(NEEDS, ())):
        with suppress(UserError):
            now = refresh(store, [maker])[0][0]
            if now.over and now.state != "succeeded":
                return now
    return None


def _waiting(store: JobStore, maker: JobRecord) -> set[str]:
    return {record.name for record in waits_for(store, [maker])}


def _known(store: JobStore, names: Iterable[str]) -> list[JobRecord]:
    found = []
    for name in names:
        try:
            found.append(store.by_name(name))
        except UserError:  # removed meanwhile
            continue
    return found


def _may_give(record: JobRecord) -> bool:
    return record.state == "succeeded" or (not record.over and record.submitted)


def _writes(store: JobStore, record: JobRecord, plan: Plan, folder: str) -> bool:
    """Whether the job's version of an artifact lies in that folder, on the machine where the plan is to run."""
    if record.executor != plan.executor:
        return False
    provider = get_backend(plan.executor).load_provider()
    # Which Slurm stands behind a login node is known of a job that was submitted, and not yet of this one.
    here = {**provider.place(plan), "slurm": record.handle.get("slurm")}
    if provider.host_of(here) != provider.host_of(record.handle):
        return False
    try:
        made = load_plan(store.folder(record.name) / "plan.json").produces
    except UserError:
        return False
    return any(each.path == f"{folder}/{record.name}" for each in made)


def _is_there(plan: Plan, path: str) -> bool:
    """Whether a version is still there; where that cannot be asked, the job that has made it is believed."""
    return get_backend(plan.executor).present(plan, [path])[path] is not False
