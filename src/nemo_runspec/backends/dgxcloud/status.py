"""The status of run:ai's jobs, in the words that all platforms share: one list for many, more detail for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

from nemo_runspec.backends.cloud.api import JsonTable
from nemo_runspec.backends.cloud.ending import LATE, LastLines, conclude
from nemo_runspec.backends.cloud.states import OUT_OF_MEMORY, StateMapping
from nemo_runspec.backends.cloud.status import SAMPLE, JobProgress, JobReader, describe, nodes_of, pick, sample_waiting
from nemo_runspec.backends.dgxcloud import logs
from nemo_runspec.backends.dgxcloud.api import PAGE, RunaiApi
from nemo_runspec.backends.dgxcloud.facts import WorkloadDetail, detail_of, exit_code_in, exit_code_of, gather
from nemo_runspec.backends.dgxcloud.logs import pvc
from nemo_runspec.backends.dgxcloud.pending import PODS, progress_of, unasked
from nemo_runspec.backends.dgxcloud.pods import began, never_ran, pods_of
from nemo_runspec.backends.dgxcloud.states import NEVER_RAN, PHASES, PLACED, is_begun, mapping_of, phase_of
from nemo_runspec.backends.dgxcloud.workloads import find, named, project_filter, recent_state, remember, workload_id
from nemo_runspec.backends.provider import Handle, JobRef
from nemo_runspec.records.status import JobStatus
from nemo_runspec.transport.reading import moment, table, text, whole

_DELETED = 4 * PAGE
"""Deleted workloads that are looked through at most, the newest first."""

NO_CODE = "its exit code is not known from here (1 stands for any failure)"
"""Of a job that has failed, and that is all that is known."""


def poll(api: RunaiApi, handles: Sequence[JobRef]) -> list[JobStatus]:
    """As `JobReader.poll`: up to four requests each for a few, for many those of a list.

    Of many it is also asked what some of those that have not begun wait for, and where those that failed ran.
    """
    return Workloads(api).poll(handles)


class Workloads(JobReader):
    """run:ai's workloads. It answers by their ids, and by lists of a project: of those there are, of those deleted."""

    platform, few, pauses = "run:ai", 2, (0.0, 0.5, 1.0, 2.0)
    absent = "run:ai has it no more; how it ended is not known"

    def __init__(self, api: RunaiApi) -> None:
        super().__init__(api.web, api.kube)
        self.api = api

    def statuses(self, handles: Sequence[JobRef]) -> list[JobStatus]:
        found = super().statuses(handles)
        for status in found:
            if status.facts.id:
                remember(status.facts.id, status.state)
        return found

    def by_id(self, handle: Handle) -> JsonTable | None:
        return self.api.detail(str(handle["id"]))

    def by_name(self, handle: Handle) -> JsonTable | None:
        return find(self.api, handle)

    def listed(self, handles: Mapping[int, Handle]) -> Mapping[int, JsonTable]:
        return pick(self.api.workloads([project_filter(next(iter(handles.values())))]), handles, workload_id)

    def elsewhere(self, handles: Mapping[int, Handle]) -> Mapping[int, JsonTable]:
        if len(handles) > self.few:
            deleted = self.api.workloads([project_filter(next(iter(handles.values())))], deleted=True)
            return pick(islice(deleted, _DELETED), handles, workload_id)
        found: dict[int, JsonTable] = {}
        for n, handle in handles.items():
            rows = chain(named(self.api, handle), named(self.api, handle, deleted=True))
            found |= pick(rows, {n: handle}, workload_id)
        return found

    def mapping_of(self, row: JsonTable) -> StateMapping:
        return mapping_of(row)

    def sample(self, found: Mapping[int, StateMapping]) -> set[int]:
        """Of those that have not begun it is asked what they wait for, of those that are over since when they ran."""
        over = [n for n, mapping in found.items() if mapping.over][:SAMPLE]
        return sample_waiting({n: mapping.state for n, mapping in found.items()}, "starting", "queued") | set(over)

    def status_of(self, handle: JobRef, row: JsonTable, *, few: bool, asked: bool) -> JobStatus:
        """With why it waits or since when it ran, where that is `asked`, and where it runs or ran."""
        known, id = mapping_of(row), workload_id(row)
        if known.ending and not self._has_run(row, few=few):
            return _status(handle, row, JobProgress(NEVER_RAN))
        started = began(self.api, self.requests, id) if asked and known.over else None
        progress = self._progress(row, known, few=few, asked=asked)
        if known.state == "failed" or (few and (known.state == "running" or known.over)):
            pods = self.requests.rows(PODS, pods_of, self.api, id)
            progress = replace(progress, nodes=nodes_of(pods))
        return _status(handle, row, progress, started)

    def last_lines(self, handle: Handle, status: JobStatus) -> bytes:
        return logs.last_lines(self.api, handle)

    def expects_more(self, handle: Handle, status: JobStatus, lines: LastLines) -> bool:
        """Not where the end is known: node 0 ends last where all is well, and any node's failure is the job's.

        Else there must be a way to the lines, a pod that ran, and an end just now.
        """
        if lines.failed or (status.state == "succeeded" and 0 in lines.ends):
            return False
        if status.ended is None or self.api.web.time() - status.ended > LATE:
            return False
        ran = bool(status.facts.nodes) or status.state == "succeeded"
        return ran and (pvc.seen_from_here(handle) or (self.api.kube is not None and not self.api.kube_refuses))

    def ended(self, handle: Handle, status: JobStatus, lines: LastLines) -> JobStatus:
        lines = replace(lines, unread="") if self.api.kube_closed else lines
        status = replace(status, detail=replace(detail_of(status), log=lines.log))
        return conclude(status, handle, lines, self.platform, lambda failed: self._explained(handle, failed), _uncoded)

    def _explained(self, handle: Handle, status: JobStatus) -> JobStatus:
        """A failure with what the cluster says of its containers."""
        from nemo_runspec.backends.cloud.diagnose import event_messages
        from nemo_runspec.backends.dgxcloud.diagnose import pod_messages
        from nemo_runspec.diagnosis.causes import says_killed_for_memory

        found = gather(self.api, handle, status)
        why = pvc.why_not_begun(handle) if pvc.seen_from_here(handle) else ""
        status = replace(status, reason=why or status.reason, detail=replace(detail_of(status), evidence=found))
        messages = (*pod_messages(found.pods, now=False), *event_messages(found.events))
        killed = next(filter(says_killed_for_memory, (*(message.text for message in messages), status.reason)), "")
        if killed:
            return replace(status, reason=status.reason or killed, exit_code=OUT_OF_MEMORY)
        code = exit_code_of(found) or exit_code_in(status.reason)
        return replace(status, reason=status.reason or f"exit code {code}", exit_code=code) if code else status

    def _progress(self, row: JsonTable, known: StateMapping, *, few: bool, asked: bool) -> JobProgress:
        """Why a workload waits. Without asking, one that is pending now starts where it did a moment ago."""
        if not known.phase:
            return JobProgress(known)
        if asked:
            return progress_of(self.api, self.requests, row, known, brief=not few)
        if known.state == "queued" and recent_state(workload_id(row)) == "starting":
            return JobProgress(PLACED, phase=None)
        return unasked(row, known)

    def _has_run(self, row: JsonTable, *, few: bool) -> bool:
        """True if a workload that is being ended had begun."""
        id = workload_id(row)
        if whole(row.get("runningPods")) or recent_state(id) == "running":
            return True
        return not never_ran(self.api, self.requests, id) if few else recent_state(id) not in ("queued", "starting")


def _status(handle: JobRef, row: JsonTable, progress: JobProgress, started: float | None = None) -> JobStatus:
    """A row of run:ai's, and what was asked besides, as `JobStatus`."""
    mapping = _after_deletion(handle, row, progress.mapping)
    why = "" if mapping.state == "succeeded" else progress.why or text(row.get("phaseMessage"))
    return describe(
        handle,
        replace(progress, mapping=mapping, why=why, begun=is_begun(row)),
        WorkloadDetail(row),
        id=workload_id(row),
        word=phase_of(row),
        replicas=_replicas(row),
        started=started,
        ended=(moment(row.get("completedAt")) or moment(row.get("phaseUpdatedAt"))) if mapping.over else None,
    )


def _uncoded(status: JobStatus) -> JobStatus:
    reason = "; ".join(filter(None, (status.reason, NO_CODE)))
    return replace(status, reason=reason, detail=replace(detail_of(status), uncoded=True))


def _after_deletion(job: JobRef, row: JsonTable, found: StateMapping) -> StateMapping:
    """A workload that was deleted while it ran ended by that; one that was over before keeps its end."""
    if moment(row.get("deletedAt")) is None or found.over:
        return found
    if job.stopped_by:
        return StateMapping("cancelled", "", "deleted from run:ai")
    return StateMapping("lost", "", "it was deleted from run:ai while it was there; how it ended is not known")


def _replicas(row: JsonTable) -> str:
    """How many of several pods run, where the workload is not over."""
    number = whole(table(row.get("requestedPods")).get("number")) or 0
    phase = PHASES.get(phase_of(row))
    return f"{whole(row.get('runningPods')) or 0} of {number} ready" if number > 1 and phase and not phase.over else ""
