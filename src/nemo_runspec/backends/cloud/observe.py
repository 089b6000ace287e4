"""The observing side of every platform of pods: logs, results and verdicts; what differs a platform has to bring."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from nemo_runspec.backends.capabilities import CloudProvider
from nemo_runspec.backends.cloud.events import event_log
from nemo_runspec.backends.cloud.optional_requests import OptionalRequests
from nemo_runspec.backends.cloud.pod.log_lines import without_markers
from nemo_runspec.backends.cloud.status import JobDetail
from nemo_runspec.backends.provider import Cursors, Handle, LogChunk, Results
from nemo_runspec.diagnosis.model import Diagnosis
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.pod_marker import inputs_of, metrics_history, outputs_of
from nemo_runspec.transport.web import Web


class PodObserver(CloudProvider):
    """What is asked about jobs that were submitted.

    Attributes:
        platform: its name, for a person. `explained`: states of jobs that are over of which it is told why.
    """

    platform: ClassVar[str]
    explained: ClassVar[frozenset[str]] = frozenset({"failed"})

    @abstractmethod
    def webs(self, handle: Handle) -> Sequence[Web | None]:
        """The connections to a job's platform, whose patience is less for what is asked beside a job's state."""

    @abstractmethod
    def new_lines(self, handle: Handle, cursors: Cursors, limit: int) -> Sequence[LogChunk]:
        """What is new in the logs of a job's nodes, end markers included. `limit`: bytes in all."""

    @abstractmethod
    def last_lines(self, handle: Handle) -> bytes:
        """The end of the logs of a job's nodes, end markers included; empty where there is no quick way to them."""

    @abstractmethod
    def verdict(self, handle: Handle, status: JobStatus, log: bytes) -> Diagnosis | None:
        """Why a job failed, or does not start. `log`: the end of its nodes' logs."""

    def read_log(self, handle: Handle, cursors: Cursors, limit: int, *, platform: bool = False) -> Sequence[LogChunk]:
        """As `Provider.read_log`; what the platform itself has written are its events."""
        if not handle.get("id"):
            return []
        if platform:
            return event_log(self.events(handle), cursors)
        return without_markers(self.new_lines(handle, cursors, limit))

    def collect(self, handles: Sequence[Handle], statuses: Sequence[JobStatus]) -> Sequence[Results]:
        """As `Provider.collect`. Secrets stay: jobs that have the same ones share them."""
        return [self._collected(handle, each) for handle, each in zip(handles, statuses, strict=True)]

    def diagnose(self, handle: Handle, status: JobStatus) -> Diagnosis | None:
        """As `CloudProvider.diagnose`."""
        handle = with_id(handle, status)
        return self.verdict(handle, status, self._log_end(handle, status))

    def _collected(self, handle: Handle, status: JobStatus) -> Results:
        handle = with_id(handle, status)
        log = self._log_end(handle, status)
        diagnosis = self.verdict(handle, status, log) if status.state in self.explained else None
        return Results(metrics_history(log), outputs_of(log), diagnosis, inputs=inputs_of(log))

    def _log_end(self, handle: Handle, status: JobStatus) -> bytes:
        """The nodes' last lines as they were just read; else asked for, as far as they can be read now."""
        known = status.detail.log if isinstance(status.detail, JobDetail) else None
        if known is not None or not handle.get("id"):
            return known or b""
        return OptionalRequests(self.platform, *self.webs(handle)).ask("log", self.last_lines, handle) or b""


def with_id(handle: Handle, status: JobStatus) -> Handle:
    """The handle of a job that was found by its name."""
    return {**handle, "id": status.facts.id} if not handle.get("id") and status.facts.id else handle
