"""Jobs that make what another job reads: found again instead of submitted twice, and ended with what they are for."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from nemo_runspec.backends import get_backend
from nemo_runspec.errors import UserError
from nemo_runspec.planning.codec import load_plan
from nemo_runspec.plans.model import Artifact, Plan
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.lifecycle import Launcher
from nemo_runspec.records.process import is_alive, this_process
from nemo_runspec.remote.refresh import refresh


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


def relate(store: JobStore, needs: Sequence[str], names: Sequence[str]) -> None:
    """Writes down in the records of jobs what they are made for: before those are recorded, which need them."""
    for maker in _known(store, needs):
        store.note(maker, relations=lambda now: replace(now.relations, made_for=(*now.relations.made_for, *names)))


@contextmanager
def awaited(store: JobStore, maker: JobRecord) -> Iterator[None]:
    """Inside, this process waits for the job: it is needed, though no record says so yet."""
    me = this_process()

    def others(now: JobRecord) -> tuple[Launcher, ...]:
        return tuple(each for each in now.relations.awaited_by if each != me)

    with suppress(OSError):  # removed meanwhile, or a full disk: it is waited for all the same
        store.note(maker, relations=lambda now: replace(now.relations, awaited_by=(*others(now), me)))
    try:
        yield
    finally:
        with suppress(OSError):
            store.note(maker, relations=lambda now: replace(now.relations, awaited_by=others(now)))


def submitted_for_another(store: JobStore, maker: JobRecord) -> JobRecord:
    """Writes down that a job was submitted because another one needs what it makes: it ends with that one."""
    return store.note(maker, relations=lambda now: replace(now.relations, on_demand=True))


def only_for(store: JobStore, records: Sequence[JobRecord]) -> list[JobRecord]:
    """As `unneeded`, of the jobs that these need."""
    needs = [name for record in records for name in record.relations.needs]
    return unneeded(store, needs, [record.name for record in records])


def unneeded(store: JobStore, makers: Iterable[str], ending: Iterable[str]) -> list[JobRecord]:
    """Those of the jobs that were submitted to make an input, and for which nobody waits but jobs that are ended.

    With each goes what makes inputs for it alone. A job that its user submitted himself, and that was only found, is
    not among them, nor is one that is over.

    Args:
        ending: names of the jobs that are ended, or will not be submitted.
    """
    gone, found = set(ending), list[JobRecord]()
    for maker in _known(store, [name for name in dict.fromkeys(makers) if name not in gone]):
        if maker.relations.on_demand and not maker.over and not _is_awaited(store, maker, gone):
            further = unneeded(store, maker.relations.needs, gone := {*gone, maker.name})
            found += [maker, *further]
            gone |= {each.name for each in further}
    return found


def waits_for(store: JobStore, records: Iterable[JobRecord]) -> list[JobRecord]:
    """Jobs that are not over and read what these jobs make: without them they never start."""
    names = dict.fromkeys(name for record in records for name in record.relations.made_for)
    return [record for record in _known(store, names) if not record.over]


def not_made_by(store: JobStore, record: JobRecord) -> JobRecord | None:
    """The first job that was to make an input of this one and has ended without; None where there is none."""
    for maker in _known(store, record.relations.needs):
        with suppress(UserError):
            now = refresh(store, [maker])[0][0]
            if now.over and now.state != "succeeded":
                return now
    return None


def _is_awaited(store: JobStore, maker: JobRecord, gone: set[str]) -> bool:
    """True if a job other than these reads what it makes, or a process other than this one waits for it."""
    if {record.name for record in waits_for(store, [maker])} - gone:
        return True
    me = this_process()  # what cannot be seen from here may be there
    return any(is_alive(each) is not False for each in maker.relations.awaited_by if each != me)


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
    """True if the job's version of an artifact lies in that folder, on the machine where the plan is to run."""
    if record.executor != plan.executor:
        return False
    provider = get_backend(plan.executor).load_provider()
    if not provider.same_endpoint(plan, record.handle):
        return False
    try:
        made = load_plan(store.folder(record.name) / "plan.json").produces
    except UserError:
        return False
    return any(each.path == f"{folder}/{record.name}" for each in made)


def _is_there(plan: Plan, path: str) -> bool:
    """True if a version is still there; where that cannot be asked, the job that has made it is believed."""
    return get_backend(plan.executor).present(plan, [path])[path] is not False
