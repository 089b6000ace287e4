"""Finds what earlier runs of a pipeline have made."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from nemo_runspec import paths
from nemo_runspec.errors import UserError
from nemo_runspec.locks import free, take
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.remote.refresh import refresh
from nemo_runspec.sweeps.control import goes_on
from nemo_runspec.sweeps.model import PIPELINE, WAITING, Member
from nemo_runspec.sweeps.store import SweepStore, record_of

_MOST = 50
"""Earlier runs that are looked at, the newest first."""


@dataclass(frozen=True, slots=True)
class EarlierStage:
    """A stage of an earlier run, with its job as it is now; one that has none yet is waiting.

    Args:
        outputs: name → path of what it produced.
    """

    id: str
    group: str
    job: str
    state: str
    over: bool
    fingerprint: Mapping[str, str]
    outputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Earlier:
    """The stages of earlier runs, the newest first."""

    stages: Sequence[EarlierStage] = ()

    def same(self, ident: str, fingerprint: Mapping[str, str]) -> EarlierStage | None:
        """The newest that was made from the same and has succeeded or goes on; None where there is none."""
        alike = (s for s in self.stages if s.id == ident and s.fingerprint == fingerprint)
        return next((s for s in alike if s.state == "succeeded" or not s.over), None)

    def last(self, ident: str) -> EarlierStage | None:
        """The newest, however it was made."""
        return next((s for s in self.stages if s.id == ident), None)


def earlier_runs(name: str, *, ask: bool = True) -> Earlier:
    """What runs of the pipeline of that name have made.

    Args:
        ask: whether platforms are asked how jobs are that were not over when they were last looked at.
    """
    store = SweepStore()
    groups = [entry.name for entry in store.entries() if entry.recipe == name][:_MOST]
    found = [(group, member, record) for group in groups for member, record in _stages(store, group)]
    now = _asked([record for _, _, record in found if record is not None and not record.over]) if ask else {}
    return Earlier(tuple(_stage(group, member, now.get(member.name, record)) for group, member, record in found))


@contextmanager
def planned_alone(name: str, say: Callable[[str], object]) -> Iterator[Callable[[], None]]:
    """Keeps other runs of a pipeline from being planned: two at once would make the same twice.

    Yields: what is called once this one is written down, which the others then see.
    """
    mark = hashlib.sha256(name.encode()).hexdigest()[:16]
    file = paths.private_dir(SweepStore().root) / f".{mark}.lock"
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        take(descriptor, on_wait=lambda: say(f"another run of {name} is being planned; waiting for it"))
        yield lambda: free(descriptor)
    finally:
        free(descriptor)
        os.close(descriptor)


def _stages(store: SweepStore, group: str) -> Iterator[tuple[Member, JobRecord | None]]:
    """The stages of a run that have a job, or will have one."""
    try:
        sweep = store.read(group)
    except UserError:
        return
    if sweep.kind != PIPELINE:
        return
    records = [(member, record_of(member)) for member in sweep.members]
    is_open = goes_on(sweep)
    yield from ((m, record) for m, record in records if record is not None or (is_open and not m.started))


def _asked(records: Sequence[JobRecord]) -> Mapping[str, JobRecord]:
    """How the jobs are now: one question per platform. What cannot be asked is as it was last known."""
    if not records:
        return {}
    try:
        return {record.name: record for record, _ in refresh(JobStore(), records, trouble=lambda *_: None)}
    except UserError:
        return {}


def _stage(group: str, member: Member, record: JobRecord | None) -> EarlierStage:
    marks = dict(member.fingerprint)
    if record is None:
        return EarlierStage(member.step, group, member.name, WAITING, False, marks)
    return EarlierStage(member.step, group, member.name, record.state, record.over, marks, record.outputs)
