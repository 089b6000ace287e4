"""The status of Lepton's jobs, in the words that all platforms share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nemo_runspec.backends.cloud.api import JsonTable
from nemo_runspec.backends.cloud.ending import LATE, NOT_YET, LastLines, conclude, missing_nodes
from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.cloud.states import OUT_OF_MEMORY, StateMapping
from nemo_runspec.backends.cloud.status import (
    JobDetail,
    JobProgress,
    JobReader,
    describe,
    nodes_of,
    pick,
    sample_waiting,
)
from nemo_runspec.backends.lepton import logs
from nemo_runspec.backends.lepton.api import LOG_LINES, LeptonApi, id_of, section
from nemo_runspec.backends.lepton.replicas import (
    events_of,
    is_failing,
    is_lost,
    is_to_start,
    out_of_memory,
    phase_of,
    replicas_of,
    waiting_of,
)
from nemo_runspec.backends.lepton.states import is_begun, mapping_of, times_of, word_of
from nemo_runspec.backends.lepton.submit import find
from nemo_runspec.backends.provider import Handle, JobRef, Replica
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.pod_marker import read_ends
from nemo_runspec.transport.reading import whole

_LAST_LINES, _PER_NODE = 200, 40

_PODS, _EVENTS = "replicas", "events"
"""What is asked for beside the job itself."""


def poll(api: LeptonApi, handles: Sequence[JobRef]) -> list[JobStatus]:
    """As `JobReader.poll`, with how jobs ended: a request for each of a few, pages of the list for many."""
    return Jobs(api).poll(handles)


class Jobs(JobReader):
    """Lepton's jobs. It answers by their ids, and by lists: of those that are alive first, which are fewer."""

    platform, few = "Lepton", 4
    logged, pauses = frozenset({"succeeded", "failed", "cancelled", "lost"}), (0.0, 0.5, 1.5, 3.0)
    absent = "Lepton has no job {id} any more: somebody deleted it, or its ttl is over"

    def __init__(self, api: LeptonApi) -> None:
        super().__init__(api.web)
        self.api = api
        self._pods: dict[str, list[Replica]] = {}

    def by_id(self, handle: Handle) -> JsonTable | None:
        return self.api.job(str(handle["id"]))

    def by_name(self, handle: Handle) -> JsonTable | None:
        return find(self.api, handle)

    def listed(self, handles: Mapping[int, Handle]) -> Mapping[int, JsonTable]:
        found = pick(self.api.jobs(mode="alive_only"), handles, id_of)
        left = {n: handle for n, handle in handles.items() if n not in found}
        return found | (pick(self.api.jobs(), left, id_of) if len(left) > self.few else {})

    def elsewhere(self, handles: Mapping[int, Handle]) -> Mapping[int, JsonTable]:
        named = (pick(self.api.jobs(name=str(handle["name"])), {n: handle}, id_of) for n, handle in handles.items())
        return {n: job for found in named for n, job in found.items()}

    def mapping_of(self, row: JsonTable) -> StateMapping:
        return mapping_of(row)

    def sample(self, found: Mapping[int, StateMapping]) -> set[int]:
        return sample_waiting({n: mapping.phase for n, mapping in found.items()}, "start")

    def status_of(self, handle: JobRef, row: JsonTable, *, few: bool, asked: bool) -> JobStatus:
        mapping, id, ready = mapping_of(row), id_of(row), whole(section(row, "status").get("ready"))
        pods = self._pods_of(id) if asked or few or mapping.state == "failed" else []
        return describe(
            handle,
            self._progress(row, mapping, pods, asked),
            JobDetail(row),
            id=id,
            word=word_of(row),
            replicas="" if mapping.over or ready is None else f"{ready} of {PodHandle(handle).nodes} ready",
            started=self.requests.ask(_EVENTS, _began, self.api, id) if few and mapping.over else None,
            ended=times_of(row)[1] if mapping.over else None,
        )

    def _progress(self, row: JsonTable, mapping: StateMapping, pods: Sequence[Replica], asked: bool) -> JobProgress:
        """Without its pods nobody knows what a job that starts waits for: no phase is told, and the last one counts."""
        begun, waiting, nodes = is_begun(row), waiting_of(pods), nodes_of(pods)
        asked = asked and not self.requests.why_missing(_PODS)
        if begun and asked and not is_to_start(pods):  # all have run, and one does not any more
            return JobProgress(StateMapping("running", reason=waiting), nodes=nodes)
        if mapping.state == "running" or mapping.over:
            return JobProgress(mapping, nodes=nodes)
        phase: str | None = mapping.phase
        if phase == "start":
            phase = phase_of(pods, phase) if asked else None
        return JobProgress(mapping, waiting, phase, nodes, failing=is_failing(pods), begun=begun)

    def _pods_of(self, id: str) -> list[Replica]:
        """A job's pods, none where Lepton does not tell them. Asked once."""
        if id not in self._pods:
            self._pods[id] = self.requests.rows(_PODS, replicas_of, self.api, id)
        return self._pods[id]

    def last_lines(self, handle: Handle, status: JobStatus) -> bytes:
        """A job's last lines. One request; more where some of its nodes ended long before the others did.

        Before them come those of nodes whose own lie before them, or at their beginning.
        """
        nodes = PodHandle(handle).nodes
        handle = {**handle, "since": handle.get("since") or times_of(_row_of(status))[0]}
        lines = min(max(_LAST_LINES, _PER_NODE * nodes), LOG_LINES)
        text = logs.last_lines(self.api, handle, lines, ended=status.ended)
        if nodes == 1 or text.count(b"\n") < lines:  # that was all of the log
            return text
        left = missing_nodes(handle, read_ends(b"".join(text.split(b"\n", _PER_NODE)[_PER_NODE:])))
        pods = [pod.id for pod in self._pods_of(str(handle["id"])) if pod.index in left] if left else []
        if left and not pods:
            return logs.last_lines(self.api, handle, LOG_LINES, ended=status.ended)
        ends = (logs.last_lines(self.api, handle, _LAST_LINES, ended=status.ended, replica=pod) for pod in pods)
        return b"".join(ends) + text

    def expects_more(self, handle: Handle, status: JobStatus, lines: LastLines) -> bool:
        """True if a node has not said yet how it ended, and may. Those that the platform has ended do not.

        A job that was stopped may have had no pods at all, and one of long ago has no late lines. A node of a success
        that tells of a failure may have been started again, and ended well.
        """
        told = {n: end for n, end in lines.ends.items() if status.state != "succeeded" or not end.exit_code}
        left, ended = missing_nodes(handle, told), status.ended
        if not left or status.state == "cancelled" or ended is None or self.api.web.time() - ended >= LATE:
            return False
        pods = self._pods_of(str(handle["id"])) if status.state == "failed" else []
        return not left <= {pod.index for pod in pods if is_lost(pod)}

    def ended(self, handle: Handle, status: JobStatus, lines: LastLines) -> JobStatus:
        """A job that is over with what its nodes say, else its platform."""
        detail = JobDetail(_row_of(status), lines.log)
        status = replace(status, facts=replace(status.facts, unanswered=self.requests.summary()), detail=detail)
        if status.state == "lost":
            status = _by_ends(status, handle, lines)
        pods = self._pods_of(handle["id"]) if status.state == "failed" else []
        found = conclude(status, handle, lines, self.platform, lambda failed: _explained(failed, pods))
        if found.state == "succeeded" and lines.unread in ("", NOT_YET):
            return replace(found, reason=_without_end(handle, lines))
        return found


def _row_of(status: JobStatus) -> Mapping[str, Any]:
    return status.detail.row if isinstance(status.detail, JobDetail) else {}


def _began(api: LeptonApi, id: str) -> float | None:
    """When the first pod started: Lepton's status only says when the job was made. One request."""
    return next((event.time for event in events_of(api, id) if event.reason == "Started" and event.time), None)


def _by_ends(status: JobStatus, handle: Handle, lines: LastLines) -> JobStatus:
    """A job of which the platform does not say how it ended: its nodes themselves may."""
    if lines.failed:
        return replace(status, state="failed", reason="")
    if lines.unread:
        return replace(status, state="unknown", reason=f"{status.reason}; {lines.unread}")
    return status if missing_nodes(handle, lines.ends) else replace(status, state="succeeded", reason="")


def _without_end(handle: Handle, lines: LastLines) -> str:
    """That a good end came without the last words of all nodes, by which alone a log is known to be whole."""
    nodes = ", ".join(map(str, sorted(missing_nodes(handle, lines.ends))[:4]))
    return f"the end of node {nodes}'s log never came: it may lack lines" if nodes else ""


def _explained(status: JobStatus, pods: Sequence[Replica]) -> JobStatus:
    """A failure with what Lepton says of its pods."""
    if out_of_memory(pods):
        return replace(status, reason="out of memory, as Lepton says", exit_code=OUT_OF_MEMORY)
    return replace(status, reason=waiting_of(pods) or "Lepton says that it failed")
