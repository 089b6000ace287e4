"""Questions about jobs of every platform of pods, over a table of what each platform brings for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from nemo_runspec.backends.capabilities import CloudProvider
from nemo_runspec.backends.cloud.api import CloudApi
from nemo_runspec.backends.cloud.events import event_log
from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.cloud.optional_requests import OptionalRequests
from nemo_runspec.backends.cloud.pod.log_lines import without_markers
from nemo_runspec.backends.cloud.status import JobDetail, with_id
from nemo_runspec.backends.provider import Cursors, Event, Handle, JobRef, LogChunk, Replica, Results, handle_id
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.pod_marker import inputs_of, metrics_history, outputs_of, wandb_run_of
from nemo_runspec.transport.web import Refused

AskedApi = TypeVar("AskedApi", bound=CloudApi)
T = TypeVar("T")


@dataclass(frozen=True)
class PodPlatform(Generic[AskedApi]):
    """What a platform of pods can be asked of its jobs, and told.

    Args:
        name: for a person.
        connect: the API that a job is on.
        find_id: a job's id, '' where there is none.
        poll: how jobs are, in the order of their handles, all on one platform.
        stop: asks a job to stop; one that is over or gone is left as it is.
        delete: deletes a job by its id; a line on what was deleted, '' where there was nothing.
        new_chunks: what is new in the logs of a job's nodes, end markers included; the number is of bytes in all.
        last_lines: the end of those logs; empty where there is no quick way to them.
        replicas, events: a job's pods, and what the platform has written down, by its id.
        diagnose: why a job failed, or does not start, by the end of its nodes' logs too.
        next_attempt: as `Resubmits.next_attempt`.
        explained: states of jobs that are over of which it is told why.
    """

    name: str
    connect: Callable[[Handle], AskedApi]
    find_id: Callable[[AskedApi, Handle], str]
    poll: Callable[[AskedApi, Sequence[JobRef]], Sequence[JobStatus]]
    stop: Callable[[AskedApi, Handle], object]
    delete: Callable[[AskedApi, Handle, str], str]
    new_chunks: Callable[[AskedApi, Handle, Cursors, int], Sequence[LogChunk]]
    last_lines: Callable[[AskedApi, Handle], bytes]
    replicas: Callable[[AskedApi, str], Sequence[Replica]]
    events: Callable[[AskedApi, str], Sequence[Event]]
    diagnose: Callable[[AskedApi, Handle, JobStatus, bytes], Diagnosis | None]
    next_attempt: Callable[[Handle, int], Handle]
    explained: frozenset[str] = frozenset({"failed"})


class PodObserver(CloudProvider, Generic[AskedApi]):
    """What is asked about jobs that were submitted; connections are kept by `PodPlatform.connect`."""

    platform: PodPlatform[AskedApi]

    def status(self, handles: Sequence[JobRef], *, places: bool = False) -> Sequence[JobStatus]:
        """As `Provider.status`. Nobody's place in a queue is told."""
        return self.platform.poll(self.platform.connect(handles[0]), handles) if handles else []

    def stop(self, handles: Sequence[Handle], by: str, *, hard: bool = False) -> None:
        """As `Provider.stop`. Where one is refused, the others are stopped all the same, and it is said of which."""
        refused: dict[str, Refused] = {}
        for handle in handles:
            try:
                self.platform.stop(self.platform.connect(handle), handle)
            except Refused as error:
                refused[PodHandle(handle).name] = error
        if refused:
            raise _joined(refused, len(handles))

    def replicas(self, handle: Handle) -> Sequence[Replica]:
        """As `CloudProvider.replicas`."""
        return self._by_id(handle, self.platform.replicas) or ()

    def events(self, handle: Handle) -> Sequence[Event]:
        """As `CloudProvider.events`."""
        return self._by_id(handle, self.platform.events) or ()

    def delete_remote(self, handle: Handle) -> Sequence[str]:
        """As `CloudProvider.delete_remote`."""
        deleted = self._by_id(handle, lambda api, id: self.platform.delete(api, handle, id))
        return [deleted] if deleted else []

    def next_attempt(self, handle: Handle, number: int) -> Handle:
        """As `CloudProvider.next_attempt`."""
        return self.platform.next_attempt(handle, number)

    def read_log(self, handle: Handle, cursors: Cursors, limit: int, *, platform: bool = False) -> Sequence[LogChunk]:
        """As `Provider.read_log`; what the platform itself has written are its events."""
        if not handle_id(handle):
            return []
        if platform:
            return event_log(self.events(handle), cursors)
        return without_markers(self.platform.new_chunks(self.platform.connect(handle), handle, cursors, limit))

    def collect(self, handles: Sequence[Handle], statuses: Sequence[JobStatus]) -> Sequence[Results]:
        """As `Provider.collect`. Secrets stay: jobs that have the same ones share them."""
        return [self._collected(handle, each) for handle, each in zip(handles, statuses, strict=True)]

    def diagnose(self, handle: Handle, status: JobStatus) -> Diagnosis | None:
        """As `CloudProvider.diagnose`."""
        handle = with_id(handle, status)
        return self._verdict(handle, status, self._log_end(handle, status))

    def _collected(self, handle: Handle, status: JobStatus) -> Results:
        handle = with_id(handle, status)
        log = self._log_end(handle, status)
        diagnosis = self._verdict(handle, status, log) if status.state in self.platform.explained else None
        return Results(metrics_history(log), outputs_of(log), diagnosis, inputs=inputs_of(log), wandb=wandb_run_of(log))

    def _log_end(self, handle: Handle, status: JobStatus) -> bytes:
        """The nodes' last lines as they were just read; else asked for, as far as they can be read now."""
        known = status.detail.log if isinstance(status.detail, JobDetail) else None
        if known is not None or not handle_id(handle):
            return known or b""
        api = self.platform.connect(handle)
        return OptionalRequests(self.platform.name, *api.webs).ask("log", self.platform.last_lines, api, handle) or b""

    def _verdict(self, handle: Handle, status: JobStatus, log: bytes) -> Diagnosis | None:
        return self.platform.diagnose(self.platform.connect(handle), handle, status, log)

    def _by_id(self, handle: Handle, ask: Callable[[AskedApi, str], T]) -> T | None:
        """An answer about a job, None where there is no such job."""
        api = self.platform.connect(handle)
        id = self.platform.find_id(api, handle)
        return ask(api, id) if id else None


def _joined(refused: Mapping[str, Refused], of: int) -> Refused:
    """What was refused of several jobs as one error; that of the only one is given back as it is."""
    first = next(iter(refused.values()))
    if of > 1:
        reasons = "; ".join(dict.fromkeys(error.what for error in refused.values()))
        first.what = f"{len(refused)} of {of} jobs could not be stopped ({', '.join(refused)}): {reasons}"
        first.args = (first.what,)
    return first
