"""What run:ai says of jobs, in the words that all platforms share: one list for many, more detail for a single one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from nemo_runspec.backends.cloud.optional_requests import Aside
from nemo_runspec.backends.cloud.renewal import unless_missing
from nemo_runspec.backends.cloud.states import EXIT_CODES, StateMapping
from nemo_runspec.backends.cloud.status import SAMPLE, JobSource, facts_of, find_jobs, missing, pick, sample_waiting
from nemo_runspec.backends.dgxcloud.api import PAGE, Row, RunaiApi
from nemo_runspec.backends.dgxcloud.facts import WorkloadDetail
from nemo_runspec.backends.dgxcloud.pending import PODS, Wait, unasked, wait_of
from nemo_runspec.backends.dgxcloud.states import ENDING, NEVER_RAN, PHASES, PLACED, is_begun, mapping_of, phase_of
from nemo_runspec.backends.dgxcloud.timeline import began, never_ran
from nemo_runspec.backends.provider import Handle, JobRef
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.record import is_over
from nemo_runspec.records.status import JobStatus
from nemo_runspec.transport.reading import moment, table, text, whole

_NO_WAIT = Wait()

_FEW = 2
"""Jobs up to this number are asked about one by one: a list would be the whole project's."""

_DELETED = 4 * PAGE
"""Deleted workloads that are looked through at most, the newest first."""

_ABSENT = "run:ai has it no more; how it ended is not known"

_TRUST = 60.0
"""Seconds for which a job that went on when it was last seen is taken to go on: whoever follows it looks more often."""

_KNOWN: dict[str, tuple[float, str]] = {}
"""How this process has last seen workloads, by their ids: when, and the state."""


def workload_name(handle: Handle) -> str:
    """The name run:ai knows a job by; that of a further attempt is longer than the job's."""
    return str(handle.get("workload") or handle["name"])


def look(api: RunaiApi, handles: Sequence[Handle]) -> list[JobStatus]:
    """How jobs are, in the order of the handles: up to four requests each for a few, for many those of a list.

    Of many it is also asked what some of those that have not begun wait for, and where those that failed ran. What was
    not asked is not among the facts. A job that neither a list nor its id leads to is `JobStatus.absent`; one of which
    the answer makes no sense is `unknown`.

    Raises:
        UserError: run:ai does not answer, or refuses.
    """
    rows, odd = find_jobs(_Workloads(api), handles)
    aside, few = Aside("run:ai", api.web), len(handles) <= _FEW
    asked = set(rows) if few else _asked({n: mapping_of(row).state for n, row in rows.items()})
    found = [
        _described(api, aside, handle, rows[n], few=few, ask=n in asked)
        if n in rows
        else missing(handle, _ABSENT, odd.get(n, ""))
        for n, handle in enumerate(handles)
    ]
    found = [replace(seen, facts=replace(seen.facts, unanswered=aside.summary())) for seen in found]
    for seen in found:
        if seen.facts.id:
            _remember(seen.facts.id, seen.state)
    return found


class _Workloads(JobSource):
    """run:ai's workloads. It answers by their ids, and by lists of a project: of those there are, of those deleted."""

    platform, few = "run:ai", _FEW

    def __init__(self, api: RunaiApi) -> None:
        self.api = api

    def by_id(self, handle: Handle) -> Row | None:
        return _detail(self.api, str(handle["id"]))

    def by_name(self, handle: Handle) -> Row | None:
        return find(self.api, handle)

    def listed(self, handles: Mapping[int, Handle]) -> Mapping[int, Row]:
        return pick(self.api.workloads([_project(next(iter(handles.values())))]), handles, workload_id)

    def elsewhere(self, handles: Mapping[int, Handle]) -> Mapping[int, Row]:
        if len(handles) > _FEW:
            deleted = self.api.workloads([_project(next(iter(handles.values())))], deleted=True)
            return pick(islice(deleted, _DELETED), handles, workload_id)
        named = {
            n: _in_list(self.api, handle) or _in_list(self.api, handle, deleted=True) for n, handle in handles.items()
        }
        return {n: row for n, row in named.items() if row}


def _asked(states: Mapping[int, str]) -> set[int]:
    """Which jobs of a list it is asked about what they wait for, or since when they ran."""
    over = [n for n, state in states.items() if is_over(state)][:SAMPLE]
    return sample_waiting(states, "starting", "queued") | set(over)


def find(api: RunaiApi, handle: Handle) -> Row | None:
    """The workload of a job's name, None where there is none. Several requests only where run:ai has many."""
    name = workload_name(handle)
    rows = api.workloads([f"name=={name}", _project(handle)])
    return next((row for row in rows if row.get("name") == name and workload_id(row)), None)


def is_over_now(api: RunaiApi, handle: Handle) -> bool:
    """Whether a job with an id is over, as it was just seen by anybody of this process; else one request."""
    return is_over(state_now(api, handle))


def state_now(api: RunaiApi, handle: Handle) -> str:
    """How such a job is: `is_over_now` in a word."""
    when, state = _KNOWN.get(str(handle["id"])) or (0.0, "")
    return state if state and (is_over(state) or time.monotonic() - when < _TRUST) else state_of(api, handle)


def state_of(api: RunaiApi, handle: Handle) -> str:
    """Our word for how a job with an id is now, `unknown` where its id leads to none. One request."""
    row = _detail(api, str(handle["id"]))
    state = "unknown" if row is None else mapping_of(row).state
    _remember(str(handle["id"]), state)
    return state


def seen_of(
    handle: Handle,
    row: Row,
    wait: Wait = _NO_WAIT,
    nodes: str = "",
    started: float | None = None,
    known: StateMapping | None = None,
) -> JobStatus:
    """A row of run:ai's as `JobStatus`.

    Args:
        row: of a list or a detail.
        wait: why it waits and for what. `nodes`: where it runs, '' where that was not asked.
        started: when the first of its containers did, None where that was not asked, or none has.
        known: what its phase means, where that is not all that is known.
    """
    usual = known or mapping_of(row)
    found = _after_deletion(handle, row, PLACED if wait.placed and usual.state == "queued" else usual)
    over = is_over(found.state)
    said = text(row.get("phaseMessage")) or found.reason
    return JobStatus(
        found.state,
        "" if found.state == "succeeded" else wait.why or said,
        exit_code=EXIT_CODES.get(found.state),
        facts=replace(
            _facts(handle, row),
            waiting=wait.why or said if found.phase else "",
            nodes=nodes or wait.nodes,
            phase=None if wait.phase is None else wait.phase or found.phase,
            failing=wait.failing,
            begun=is_begun(row),
        ),
        started=started,
        ended=(moment(row.get("completedAt")) or moment(row.get("phaseUpdatedAt"))) if over else None,
        detail=WorkloadDetail(row),
    )


def _described(api: RunaiApi, aside: Aside, handle: Handle, row: Row, *, few: bool, ask: bool) -> JobStatus:
    """A row with what is asked besides: why it waits or since when it ran where `ask`, and where it runs or ran."""
    known, nodes, started = mapping_of(row), "", None
    if phase_of(row) in ENDING and not _has_run(api, aside, row, ask=few):
        return seen_of(handle, row, known=NEVER_RAN)
    if ask and is_over(known.state):
        started = began(api, aside, workload_id(row))
    if known.state == "failed" or (few and (known.state == "running" or is_over(known.state))):
        nodes = nodes_of(api, aside, row)
    return seen_of(handle, row, _wait(api, aside, row, known, few=few, ask=ask), nodes, started)


def _wait(api: RunaiApi, aside: Aside, row: Row, known: StateMapping, *, few: bool, ask: bool) -> Wait:
    """What a workload waits for. One of which that is not asked now starts where it did a moment ago."""
    if not known.phase:
        return _NO_WAIT
    if ask:
        return wait_of(api, aside, row, known, brief=not few)
    if known.state == "queued" and _lately(workload_id(row)) == "starting":
        return Wait(phase=None, placed=True)
    return unasked(row, known)


def _has_run(api: RunaiApi, aside: Aside, row: Row, *, ask: bool) -> bool:
    """Whether a workload that is being ended had begun."""
    if whole(row.get("runningPods")) or _lately(workload_id(row)) == "running":
        return True
    return (
        not never_ran(api, aside, workload_id(row)) if ask else _lately(workload_id(row)) not in ("queued", "starting")
    )


def _lately(id: str) -> str:
    """The state in which this process has seen a workload a moment ago, '' for none."""
    when, state = _KNOWN.get(id) or (0.0, "")
    return state if state and time.monotonic() - when < _TRUST else ""


def workload_id(row: Mapping[str, Any]) -> str:
    """The id by which a workload is asked about, '' where it is not said."""
    return text(row.get("id")) or text(row.get("workloadId"))


def nodes_of(api: RunaiApi, aside: Aside, row: Row) -> str:
    """The machines of a workload's pods, in the pods' order; '' where run:ai does not say."""
    from nemo_runspec.backends.dgxcloud.pods import pods_of

    return ",".join(pod.node for pod in aside.listed(PODS, pods_of, api, workload_id(row)) if pod.node)


def _detail(api: RunaiApi, id: str) -> Row | None:
    return unless_missing(api.detail, id)


def _in_list(api: RunaiApi, handle: Handle, *, deleted: bool = False) -> Row | None:
    rows = api.workloads([f"name=={workload_name(handle)}", _project(handle)], deleted=deleted)
    return next((row for row in rows if row.get("id") == handle["id"]), None)


def _remember(id: str, state: str) -> None:
    _KNOWN[id] = (time.monotonic(), state)


def _project(handle: Handle) -> str:
    return f"projectId=={handle['project_id']}" if handle.get("project_id") else f"projectName=={handle['project']}"


def _after_deletion(handle: Handle, row: Row, found: StateMapping) -> StateMapping:
    """A workload that was deleted while it ran ended by that; one that was over before keeps its end."""
    if moment(row.get("deletedAt")) is None or is_over(found.state):
        return found
    if isinstance(handle, JobRef) and handle.stopped_by:
        return StateMapping("cancelled", "", "deleted from run:ai")
    return StateMapping("lost", "", "it was deleted from run:ai while it was there; how it ended is not known")


def _facts(handle: Handle, row: Row) -> JobFacts:
    word = phase_of(row)
    replicas = _replicas(row) if word in PHASES and not PHASES[word].over else ""
    return replace(facts_of({**handle, "id": workload_id(row)}, word), replicas=replicas)


def _replicas(row: Row) -> str:
    number = whole(table(row.get("requestedPods")).get("number")) or 0
    return f"{whole(row.get('runningPods')) or 0} of {number} ready" if number > 1 else ""
