"""What run:ai says of jobs, in the words that all platforms share: one list for many, more detail for a single one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from nemo_runspec.backends.cloud.states import StateMapping
from nemo_runspec.backends.cloud.status import SAMPLE, JobReader, Progress, describe, nodes_of, pick, sample_waiting
from nemo_runspec.backends.dgxcloud.api import PAGE, Row, RunaiApi
from nemo_runspec.backends.dgxcloud.facts import WorkloadDetail
from nemo_runspec.backends.dgxcloud.pending import PODS, progress_of, unasked
from nemo_runspec.backends.dgxcloud.pods import began, never_ran, pods_of
from nemo_runspec.backends.dgxcloud.states import ENDING, NEVER_RAN, PHASES, PLACED, is_begun, mapping_of, phase_of
from nemo_runspec.backends.provider import Handle, JobRef
from nemo_runspec.records.record import is_over
from nemo_runspec.records.status import JobStatus
from nemo_runspec.transport.reading import moment, table, text, whole

_DELETED = 4 * PAGE
"""Deleted workloads that are looked through at most, the newest first."""

_TRUST = 60.0
"""Seconds for which a job that went on when it was last seen is taken to go on: whoever follows it looks more often."""

_KNOWN: dict[str, tuple[float, str]] = {}
"""How this process has last seen workloads, by their ids: when, and the state."""


def workload_name(handle: Handle) -> str:
    """The name run:ai knows a job by; that of a further attempt is longer than the job's."""
    return str(handle.get("workload") or handle["name"])


def workload_id(row: Mapping[str, Any]) -> str:
    """The id by which a workload is asked about, '' where it is not said."""
    return text(row.get("id")) or text(row.get("workloadId"))


def poll(api: RunaiApi, handles: Sequence[Handle]) -> list[JobStatus]:
    """As `JobReader.poll`: up to four requests each for a few, for many those of a list.

    Of many it is also asked what some of those that have not begun wait for, and where those that failed ran.
    """
    found = _Workloads(api).poll(handles)
    for status in found:
        if status.facts.id:
            _remember(status.facts.id, status.state)
    return found


def find(api: RunaiApi, handle: Handle) -> Row | None:
    """The workload of a job's name, None where there is none. Several requests only where run:ai has many."""
    name = workload_name(handle)
    return next((row for row in _named(api, handle) if row.get("name") == name and workload_id(row)), None)


def is_over_now(api: RunaiApi, handle: Handle) -> bool:
    """Whether a job with an id is over, as it was just seen by anybody of this process; else one request."""
    return is_over(state_now(api, handle))


def state_now(api: RunaiApi, handle: Handle) -> str:
    """How such a job is: `is_over_now` in a word."""
    _, state = _KNOWN.get(str(handle["id"])) or (0.0, "unknown")
    return state if is_over(state) else _recent(str(handle["id"])) or state_of(api, handle)


def state_of(api: RunaiApi, handle: Handle) -> str:
    """Our word for how a job with an id is now, `unknown` where its id leads to none. One request."""
    row = api.detail(str(handle["id"]))
    state = "unknown" if row is None else mapping_of(row).state
    _remember(str(handle["id"]), state)
    return state


def _remember(id: str, state: str) -> None:
    _KNOWN[id] = (time.monotonic(), state)


def _recent(id: str) -> str:
    """The state in which this process has seen a workload a moment ago, '' for none."""
    when, state = _KNOWN.get(id) or (0.0, "")
    return state if time.monotonic() - when < _TRUST else ""


class _Workloads(JobReader):
    """run:ai's workloads. It answers by their ids, and by lists of a project: of those there are, of those deleted."""

    platform, few = "run:ai", 2
    absent = "run:ai has it no more; how it ended is not known"

    def __init__(self, api: RunaiApi) -> None:
        super().__init__(api.web)
        self.api = api

    def by_id(self, handle: Handle) -> Row | None:
        return self.api.detail(str(handle["id"]))

    def by_name(self, handle: Handle) -> Row | None:
        return find(self.api, handle)

    def listed(self, handles: Mapping[int, Handle]) -> Mapping[int, Row]:
        return pick(self.api.workloads([_project(next(iter(handles.values())))]), handles, workload_id)

    def elsewhere(self, handles: Mapping[int, Handle]) -> Mapping[int, Row]:
        if len(handles) > self.few:
            deleted = self.api.workloads([_project(next(iter(handles.values())))], deleted=True)
            return pick(islice(deleted, _DELETED), handles, workload_id)
        found: dict[int, Row] = {}
        for n, handle in handles.items():
            rows = chain(_named(self.api, handle), _named(self.api, handle, deleted=True))
            found |= pick(rows, {n: handle}, workload_id)
        return found

    def mapping_of(self, row: Row) -> StateMapping:
        return mapping_of(row)

    def sample(self, found: Mapping[int, StateMapping]) -> set[int]:
        """Of those that have not begun it is asked what they wait for, of those that are over since when they ran."""
        over = [n for n, mapping in found.items() if mapping.over][:SAMPLE]
        return sample_waiting({n: mapping.state for n, mapping in found.items()}, "starting", "queued") | set(over)

    def status_of(self, handle: Handle, row: Row, *, few: bool, asked: bool) -> JobStatus:
        """With why it waits or since when it ran, where that is `asked`, and where it runs or ran."""
        known, id = mapping_of(row), workload_id(row)
        if phase_of(row) in ENDING and not self._has_run(row, few=few):
            return _status(handle, row, Progress(NEVER_RAN))
        started = began(self.api, self.requests, id) if asked and known.over else None
        progress = self._progress(row, known, few=few, asked=asked)
        if known.state == "failed" or (few and (known.state == "running" or known.over)):
            pods = self.requests.rows(PODS, pods_of, self.api, id)
            progress = replace(progress, nodes=nodes_of(pods))
        return _status(handle, row, progress, started)

    def _progress(self, row: Row, known: StateMapping, *, few: bool, asked: bool) -> Progress:
        """Why a workload waits. Without asking, one that is pending now starts where it did a moment ago."""
        if not known.phase:
            return Progress(known)
        if asked:
            return progress_of(self.api, self.requests, row, known, brief=not few)
        if known.state == "queued" and _recent(workload_id(row)) == "starting":
            return Progress(PLACED, phase=None)
        return unasked(row, known)

    def _has_run(self, row: Row, *, few: bool) -> bool:
        """Whether a workload that is being ended had begun."""
        id = workload_id(row)
        if whole(row.get("runningPods")) or _recent(id) == "running":
            return True
        return not never_ran(self.api, self.requests, id) if few else _recent(id) not in ("queued", "starting")


def _status(handle: Handle, row: Row, progress: Progress, started: float | None = None) -> JobStatus:
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


def _named(api: RunaiApi, handle: Handle, *, deleted: bool = False) -> Iterator[Row]:
    return api.workloads([f"name=={workload_name(handle)}", _project(handle)], deleted=deleted)


def _project(handle: Handle) -> str:
    return f"projectId=={handle['project_id']}" if handle.get("project_id") else f"projectName=={handle['project']}"


def _after_deletion(handle: Handle, row: Row, found: StateMapping) -> StateMapping:
    """A workload that was deleted while it ran ended by that; one that was over before keeps its end."""
    if moment(row.get("deletedAt")) is None or found.over:
        return found
    if isinstance(handle, JobRef) and handle.stopped_by:
        return StateMapping("cancelled", "", "deleted from run:ai")
    return StateMapping("lost", "", "it was deleted from run:ai while it was there; how it ended is not known")


def _replicas(row: Row) -> str:
    """How many of several pods run, where the workload is not over."""
    number = whole(table(row.get("requestedPods")).get("number")) or 0
    phase = PHASES.get(phase_of(row))
    return f"{whole(row.get('runningPods')) or 0} of {number} ready" if number > 1 and phase and not phase.over else ""
