"""What Lepton says of jobs, in the words that all platforms share."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nemo_runspec.backends.cloud.ending import LATE, NOT_YET, LastLines, conclude, missing_nodes, read_last_lines
from nemo_runspec.backends.cloud.optional_requests import Aside
from nemo_runspec.backends.cloud.states import CANCELLED, OUT_OF_MEMORY, StateMapping
from nemo_runspec.backends.cloud.status import (
    JobDetail,
    JobSource,
    Row,
    facts_of,
    find_jobs,
    missing,
    pick,
    sample_waiting,
)
from nemo_runspec.backends.lepton import logs
from nemo_runspec.backends.lepton.api import LOG_LINES, LeptonApi, id_of, section
from nemo_runspec.backends.lepton.replicas import (
    is_failing,
    is_lost,
    is_to_start,
    out_of_memory,
    phase_of,
    read_event,
    replicas_of,
    waiting_of,
)
from nemo_runspec.backends.lepton.states import is_begun, is_over, mapping_of, times_of, word_of
from nemo_runspec.backends.lepton.submit import find
from nemo_runspec.backends.provider import Handle, Replica
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.pod_marker import read_ends

FEW = 4
"""So many jobs are asked about one by one, with their pods; more of them by the list of all, without."""

_LATE_LOGS = (0.0, 0.5, 1.5, 3.0)
"""Seconds before each question for the last lines of jobs that are over."""

_LAST_LINES, _PER_NODE = 200, 40

_PODS, _EVENTS = "replicas", "events"
"""What is asked for beside the job itself."""


def look(api: LeptonApi, handles: Sequence[Handle]) -> list[JobStatus]:
    """How jobs are, in the order of the handles: a request for each of a few, pages of the list for many.

    One without an id is looked for by its name, and `JobStatus.gone` where there is no such job. One that neither the
    list nor its id leads to is `JobStatus.absent`; one of which the answer makes no sense is `unknown`.

    Raises:
        UserError: Lepton does not answer, or refuses.
    """
    (jobs, odd), aside = find_jobs(_Jobs(api), handles), Aside("Lepton", api.web)
    known = {n: _known(handles[n], job) for n, job in jobs.items()}
    lines = _last_lines(api, aside, {n: known[n] for n, job in jobs.items() if is_over(job)}, jobs)
    few = len(handles) <= FEW
    phases = {n: mapping_of(job).phase for n, job in jobs.items()}
    asked = set(jobs) if few else sample_waiting(phases, "start")
    return [
        _over(api, aside, known[n], jobs[n], lines[n], few=few)
        if n in lines
        else _going(api, aside, known[n], jobs[n], closely=n in asked)
        if n in jobs
        else missing(handle, _absent(handle), odd.get(n, ""))
        for n, handle in enumerate(handles)
    ]


class _Jobs(JobSource):
    """Lepton's jobs. It answers by their ids, and by lists: of those that are alive first, which are fewer."""

    platform, few = "Lepton", FEW

    def __init__(self, api: LeptonApi) -> None:
        self.api = api

    def by_id(self, handle: Handle) -> Row | None:
        return self.api.job(str(handle["id"]))

    def by_name(self, handle: Handle) -> Row | None:
        return find(self.api, handle)

    def listed(self, handles: Mapping[int, Handle]) -> Mapping[int, Row]:
        found = pick(self.api.jobs(mode="alive_only"), handles, id_of)
        left = {n: handle for n, handle in handles.items() if n not in found}
        return found | (pick(self.api.jobs(), left, id_of) if len(left) > FEW else {})

    def elsewhere(self, handles: Mapping[int, Handle]) -> Mapping[int, Row]:
        named = (pick(self.api.jobs(name=str(handle["name"])), {n: handle}, id_of) for n, handle in handles.items())
        return {n: job for found in named for n, job in found.items()}


def _absent(handle: Handle) -> str:
    return f"Lepton has no job {handle.get('id')} any more: somebody deleted it, or its ttl is over"


def _known(handle: Handle, job: Mapping[str, Any]) -> Handle:
    """The handle with the id that was found, and with when the job was made."""
    since = handle.get("since") or times_of(job)[0]
    return {**handle, "id": id_of(job), **({"since": since} if since else {})}


def _pods(api: LeptonApi, aside: Aside, handle: Handle) -> list[Replica]:
    """A job's pods, none where Lepton does not tell them."""
    return aside.listed(_PODS, replicas_of, api, str(handle["id"]))


def _nodes(replicas: Sequence[Replica]) -> str:
    return ",".join(dict.fromkeys(replica.node for replica in replicas if replica.node))


def _going(api: LeptonApi, aside: Aside, handle: Handle, job: Mapping[str, Any], *, closely: bool) -> JobStatus:
    """Without its pods nobody knows what a job that starts waits for: no phase is told then; the last one counts."""
    mapping = mapping_of(job)
    replicas = _pods(api, aside, handle) if closely else []
    closely = closely and not aside.lacks(_PODS)
    begun, waiting = is_begun(job), waiting_of(replicas)
    if begun and closely and not is_to_start(replicas):
        mapping, begun = StateMapping("running", reason=waiting), False  # all have run, and one does not any more
    facts = _facts(handle, job, replicas, aside)
    if mapping.state != "running":
        phase = phase_of(replicas, mapping.phase) if mapping.phase == "start" else mapping.phase
        known = phase if closely or mapping.phase != "start" else None
        facts = replace(facts, failing=is_failing(replicas), begun=begun, phase=known, waiting=waiting)
    ready = section(job, "status").get("ready")
    if isinstance(ready, int) and not isinstance(ready, bool):
        facts = replace(facts, replicas=f"{ready} of {int(handle.get('nodes') or 1)} ready")
    return JobStatus(mapping.state, facts.waiting or mapping.reason, facts=facts)


def _facts(handle: Handle, job: Mapping[str, Any], replicas: Sequence[Replica], aside: Aside) -> JobFacts:
    return replace(facts_of(handle, word_of(job)), nodes=_nodes(replicas), unanswered=aside.summary())


def _last_lines(
    api: LeptonApi, aside: Aside, handles: Mapping[int, Handle], jobs: Mapping[int, Row]
) -> dict[int, LastLines]:
    return read_last_lines(
        handles,
        aside,
        lambda n: _log_end(api, aside, handles[n], jobs[n]),
        lambda n, lines: _expects_more(api, aside, handles[n], jobs[n], lines),
        _LATE_LOGS,
        time.sleep,
    )


def _log_end(api: LeptonApi, aside: Aside, handle: Handle, job: Mapping[str, Any]) -> bytes:
    """A job's last lines. One request; more where some of its nodes ended long before the others did."""
    nodes, ended = int(handle.get("nodes") or 1), times_of(job)[1]
    lines = min(max(_LAST_LINES, _PER_NODE * nodes), LOG_LINES)
    text = logs.newest(api, handle, lines, ended=ended)
    if nodes > 1 and text.count(b"\n") >= lines:  # else that was all of the log
        text = _with_earlier(api, aside, handle, text, ended)
    return text


def _with_earlier(api: LeptonApi, aside: Aside, handle: Handle, text: bytes, ended: float | None) -> bytes:
    """The last lines, before them the last words of those nodes whose own lie before them or at their beginning."""
    left = missing_nodes(handle, read_ends(b"".join(text.splitlines(True)[_PER_NODE:])))
    pods = [each.id for each in _pods(api, aside, handle) if each.index in left] if left else []
    earlier = [logs.newest(api, handle, _LAST_LINES, ended=ended, replica=pod) for pod in pods]
    if left and not pods:
        return logs.newest(api, handle, LOG_LINES, ended=ended)
    return b"".join(earlier) + text


def _expects_more(api: LeptonApi, aside: Aside, handle: Handle, job: Mapping[str, Any], lines: LastLines) -> bool:
    """Whether a node has not said yet how it ended, and may. Those that the platform has ended do not.

    A job that was stopped may have had no pods at all, and one of long ago has no late lines. A node of a success that
    tells of a failure may have been started again, and ended well.
    """
    ended, state = times_of(job)[1], mapping_of(job).state
    heard = {n: end for n, end in lines.ends.items() if state != "succeeded" or not end.exit_code}
    left = missing_nodes(handle, heard)
    if not left or state == "cancelled" or ended is None or api.web.time() - ended >= LATE:
        return False
    gone = {each.index for each in _pods(api, aside, handle) if is_lost(each)} if state == "failed" else set()
    return not left <= gone


def _over(api: LeptonApi, aside: Aside, handle: Handle, job: Row, lines: LastLines, *, few: bool) -> JobStatus:
    mapping = _by_ends(mapping_of(job), handle, lines)
    replicas = _pods(api, aside, handle) if few or mapping.state == "failed" else []
    status = JobStatus(
        mapping.state,
        mapping.reason,
        facts=_facts(handle, job, replicas, aside),
        started=aside.of(_EVENTS, _began, api, str(handle["id"])) if few else None,
        ended=times_of(job)[1],
        detail=JobDetail(job, lines.log),
    )
    if mapping.state == "cancelled":
        return replace(status, exit_code=CANCELLED)
    found = conclude(status, handle, lines, "Lepton", lambda failed: _failure(failed, replicas))
    if found.state == "succeeded" and lines.unread in ("", NOT_YET):
        return replace(found, reason=_unheard(handle, lines))
    return found


def _began(api: LeptonApi, id: str) -> float | None:
    """When the first pod started: Lepton's status only says when the job was made. One request."""
    times = [event.time for event in map(read_event, api.events(id)) if event.reason == "Started" and event.time]
    return min(times, default=None)


def _by_ends(mapping: StateMapping, handle: Handle, lines: LastLines) -> StateMapping:
    """What the nodes themselves say counts where the platform does not say how a job ended."""
    if mapping.state != "lost":
        return mapping
    if lines.failed:
        return StateMapping("failed")
    if lines.unread:
        return StateMapping("unknown", reason=f"{mapping.reason}; {lines.unread}")
    return mapping if missing_nodes(handle, lines.ends) else StateMapping("succeeded")


def _unheard(handle: Handle, lines: LastLines) -> str:
    """That a good end came without the last words of all nodes, by which alone a log is known to be whole."""
    nodes = ", ".join(map(str, sorted(missing_nodes(handle, lines.ends))[:4]))
    return f"the end of node {nodes}'s log never came: it may lack lines" if nodes else ""


def _failure(status: JobStatus, replicas: Sequence[Replica]) -> JobStatus:
    """A failure with what Lepton says of its pods."""
    if out_of_memory(replicas):
        return replace(status, reason="out of memory, as Lepton says", exit_code=OUT_OF_MEMORY)
    return replace(status, reason=waiting_of(replicas) or "Lepton says that it failed")
