"""What Lepton says of jobs, in the words that all platforms share."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nemo_runspec.backends.cloud.aside import Aside
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
from nemo_runspec.backends.lepton.states import CANCELLED, Meaning, is_begun, is_over, meaning_of, times_of, word_of
from nemo_runspec.backends.lepton.submit import find
from nemo_runspec.remote.provider import Handle, JobStatus, Replica
from nemo_runspec.script.pod_marker import read_ends
from nemo_runspec.transport.web import Malformed

if TYPE_CHECKING:
    from nemo_runspec.script.pod_marker import End

_CLOSELY = 16
"""Jobs that start and whose pods are asked for with one look, where there are many."""

FEW = 4
"""So many jobs are asked about one by one, with their pods; more of them by the list of all, without."""

BY_ID = 64
"""Jobs that a list lacks and that are asked for by their ids with one look; the others with the next ones."""

_LATE_LOGS = (0.0, 0.5, 1.5, 3.0)
"""Seconds before each question for the last words of jobs that are over: a log's last lines come late."""

_LAST_LINES, _PER_NODE = 200, 40
_OOM = 137
_LATE = 120.0
"""Seconds after a job's end in which lines of its log may still arrive."""

_PODS, _EVENTS, _LOG = "replicas", "events", "log"
"""What is asked for beside the job itself."""

_NOT_YET = "the last lines of its log have not come yet"


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of a job that is over.

    Args:
        log: its last lines; `ends`: how each node ended, by its number. `unread`: why more than that is not known yet.
    """

    job: Mapping[str, Any]
    log: bytes
    ends: Mapping[int, End]
    unread: str = ""


def look(api: LeptonApi, handles: Sequence[Handle]) -> list[JobStatus]:
    """How jobs are, in the order of the handles: a request for each of a few, pages of the list for many.

    One without an id is looked for by its name, and `JobStatus.gone` where there is no such job. One that neither the
    list nor its id leads to is `JobStatus.absent`; one of which the answer makes no sense is `unknown`.

    Raises:
        UserError: Lepton does not answer, or refuses.
    """
    (jobs, odd), aside = _jobs(api, handles), Aside("Lepton", api.web)
    over = {n for n, job in jobs.items() if is_over(job)}
    told = _last_words(api, aside, {n: (_known(handles[n], jobs[n]), jobs[n]) for n in over})
    few = len(handles) <= FEW
    asked = _asked_closely(jobs, few=few)
    return [
        _over(api, aside, _known(handle, jobs[n]), told[n], few=few)
        if n in over
        else _going(api, aside, _known(handle, jobs[n]), jobs[n], closely=n in asked)
        if n in jobs
        else _missing(handle, odd.get(n, ""))
        for n, handle in enumerate(handles)
    ]


def _asked_closely(jobs: Mapping[int, Mapping[str, Any]], *, few: bool) -> set[int]:
    """The jobs whose pods are asked for too: all of a few; of many some of those that start, others with each look."""
    if few:
        return set(jobs)
    starting = [n for n, job in jobs.items() if meaning_of(job).phase == "start"]
    return set(random.sample(starting, min(_CLOSELY, len(starting))))


def _jobs(api: LeptonApi, handles: Sequence[Handle]) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    """The jobs that there are, by the handle's number; and why it is not known of others whether they are there."""
    found = {n: job for n, handle in enumerate(handles) if _is_doubtful(handle) and (job := find(api, handle))}
    ids = {n: str(handle["id"]) for n, handle in enumerate(handles) if handle.get("id") and n not in found}
    listed = _listed(api, ids.values()) if len(ids) > FEW else {}
    found |= {n: listed[id] for n, id in ids.items() if id in listed}
    left = [n for n in ids if n not in found]
    odd = dict.fromkeys(left, "Lepton's list lacks it; its id is asked for with a later look")
    for n in random.sample(left, min(BY_ID, len(left))):
        try:
            job = api.job(ids[n]) or _in_list(api, handles[n])
        except Malformed as error:
            odd[n] = error.what
            continue
        del odd[n]
        found |= {n: job} if job else {}
    return found, odd


def _in_list(api: LeptonApi, handle: Handle) -> dict[str, Any] | None:
    """A job that its id does not lead to, out of the list: that its id is not known may be a stray answer."""
    return next((job for job in api.jobs(name=str(handle["name"])) if id_of(job) == handle["id"]), None)


def _is_doubtful(handle: Handle) -> bool:
    """Whether it is looked for by its name: its id is not known, or there may come another one of it."""
    return not handle.get("id") or bool(handle.get("doubt"))


def _listed(api: LeptonApi, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The jobs of these ids, out of the lists: of those that are alive first, which are fewer."""
    wanted, found = set(ids), dict[str, dict[str, Any]]()
    for mode in ("alive_only", "alive_and_archive"):
        for job in api.jobs(mode=mode):
            if id_of(job) in wanted:
                found[id_of(job)] = job
            if len(found) == len(wanted):
                return found
        if len(wanted) - len(found) <= FEW:
            break
    return found


def _known(handle: Handle, job: Mapping[str, Any]) -> Handle:
    """The handle with the id that was found, and with when the job was made."""
    since = handle.get("since") or times_of(job)[0]
    return {**handle, "id": id_of(job), **({"since": since} if since else {})}


def _missing(handle: Handle, odd: str) -> JobStatus:
    """A job that is not there, or of which it is not known, `odd`, whether it is."""
    if not handle.get("id"):
        return JobStatus("failed", "it was never submitted: nemotron ended before it did", exit_code=1, gone=True)
    facts = _facts(handle, "", ())
    why = f"Lepton has no job {handle['id']} any more: somebody deleted it, or its ttl is over"
    return JobStatus("unknown", odd or why, facts=facts, absent=not odd)


def _pods(api: LeptonApi, aside: Aside, handle: Handle) -> list[Replica]:
    """A job's pods, none where Lepton does not tell them."""
    return aside.listed(_PODS, replicas_of, api, str(handle["id"]))


def _going(api: LeptonApi, aside: Aside, handle: Handle, job: Mapping[str, Any], *, closely: bool) -> JobStatus:
    """Without its pods nobody knows what a job that starts waits for: no phase is told then; the last one counts."""
    meaning = meaning_of(job)
    replicas = _pods(api, aside, handle) if closely else []
    closely = closely and not aside.lacks(_PODS)
    begun, waiting = is_begun(job), waiting_of(replicas)
    if begun and closely and not is_to_start(replicas):
        meaning, begun = Meaning("running", reason=waiting), False  # all have run, and one does not any more
    facts = {**_facts(handle, word_of(job), replicas), **aside.facts()}
    if meaning.state != "running":
        facts |= {"failing": True} if is_failing(replicas) else {}
        facts |= {"begun": True} if begun else {}
        if closely or meaning.phase != "start":
            facts["phase"] = phase_of(replicas, meaning.phase) if meaning.phase == "start" else meaning.phase
        facts |= {"waiting": waiting} if waiting else {}
    ready = section(job, "status").get("ready")
    if isinstance(ready, int) and not isinstance(ready, bool):
        facts["replicas"] = f"{ready} of {int(handle.get('nodes') or 1)} ready"
    return JobStatus(meaning.state, facts.get("waiting") or meaning.reason, facts=facts)


def _facts(handle: Handle, word: str, replicas: Sequence[Replica]) -> dict[str, Any]:
    nodes = dict.fromkeys(replica.node for replica in replicas if replica.node)
    facts = {
        "id": handle.get("id"),
        "nodes": ",".join(nodes),
        "attempt": int(handle.get("attempt") or 0),
        "platform_state": word,
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}


def _last_words(api: LeptonApi, aside: Aside, jobs: Mapping[int, tuple[Handle, dict[str, Any]]]) -> dict[int, Told]:
    """The ends of logs of jobs that are over, asked for again as long as a node's own end may still come."""
    told: dict[int, Told] = {}
    left = sorted(jobs)
    for pause in _LATE_LOGS:
        if not left:
            break
        time.sleep(pause)
        told |= {n: _told(api, aside, *jobs[n]) for n in left}
        left = [n for n in left if not told[n].unread and _is_worth_waiting(api, aside, jobs[n][0], told[n])]
    return told | {n: replace(told[n], unread=_NOT_YET) for n in left}


def _told(api: LeptonApi, aside: Aside, handle: Handle, job: Mapping[str, Any]) -> Told:
    """A job's last lines, none where Lepton does not tell them."""
    text = aside.of(_LOG, _log_end, api, aside, handle, job) or b""
    return Told(job, text, read_ends(text), aside.lacks(_LOG))


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
    missing = _missing_nodes(handle, read_ends(b"".join(text.splitlines(True)[_PER_NODE:])))
    pods = [each.id for each in _pods(api, aside, handle) if each.index in missing] if missing else []
    earlier = [logs.newest(api, handle, _LAST_LINES, ended=ended, replica=pod) for pod in pods]
    if missing and not pods:
        return logs.newest(api, handle, LOG_LINES, ended=ended)
    return b"".join(earlier) + text


def _missing_nodes(handle: Handle, ends: Iterable[int]) -> set[int]:
    return set(range(int(handle.get("nodes") or 1))) - set(ends)


def _is_worth_waiting(api: LeptonApi, aside: Aside, handle: Handle, told: Told) -> bool:
    """Whether a node has not said yet how it ended, and may. Those that the platform has ended do not.

    A job that was stopped may have had no pods at all, and one of long ago has no late lines. A node of a success that
    tells of a failure may have been started again, and ended well.
    """
    ended, state = times_of(told.job)[1], meaning_of(told.job).state
    missing = _missing_nodes(handle, (n for n, end in told.ends.items() if state != "succeeded" or not end.exit_code))
    if not missing or state == "cancelled" or ended is None or api.web.time() - ended >= _LATE:
        return False
    gone = {each.index for each in _pods(api, aside, handle) if is_lost(each)} if state == "failed" else set()
    return not missing <= gone


def _over(api: LeptonApi, aside: Aside, handle: Handle, told: Told, *, few: bool) -> JobStatus:
    meaning = _by_ends(meaning_of(told.job), told, int(handle.get("nodes") or 1))
    replicas = _pods(api, aside, handle) if few or meaning.state == "failed" else []
    code, signal, reason = _how(handle, meaning, told, replicas)
    started = aside.of(_EVENTS, _began, api, str(handle["id"])) if few else None
    unread = {"unread": told.unread} if _is_unread(meaning, told, code) else {}
    return JobStatus(
        meaning.state,
        reason,
        exit_code=code,
        signal=signal,
        facts={**_facts(handle, word_of(told.job), replicas), **aside.facts(), **unread},
        started=started,
        ended=times_of(told.job)[1],
        detail=told,
    )


def _began(api: LeptonApi, id: str) -> float | None:
    """When the first pod started: Lepton's status only says when the job was made. One request."""
    times = [event.time for event in map(read_event, api.events(id)) if event.reason == "Started" and event.time]
    return min(times, default=None)


def _by_ends(meaning: Meaning, told: Told, nodes: int) -> Meaning:
    """What the nodes themselves say counts where the platform does not say how a job ended, or calls it a success."""
    failed = any(end.exit_code for end in told.ends.values())
    if failed and meaning.state in ("lost", "succeeded"):
        return Meaning("failed")
    if meaning.state == "lost" and told.unread:
        return Meaning("unknown", reason=f"{meaning.reason}; {told.unread}")
    if meaning.state != "lost" or not told.ends:
        return meaning
    return Meaning("succeeded") if len(told.ends) >= nodes else meaning


def _unheard(handle: Handle, ends: Mapping[int, End]) -> str:
    """That a good end came without the last words of all nodes, by which alone a log is known to be whole."""
    nodes = ", ".join(map(str, sorted(_missing_nodes(handle, ends))[:4]))
    return f"the end of node {nodes}'s log never came: it may lack lines" if nodes else ""


def _is_unread(meaning: Meaning, told: Told, code: int | None) -> bool:
    """Whether a later look can tell more of how it ended: the exit code, or what its nodes say they have made."""
    return bool(told.unread) and (meaning.state == "succeeded" or (meaning.state == "failed" and code is None))


def _how(
    handle: Handle, meaning: Meaning, told: Told, replicas: Sequence[Replica]
) -> tuple[int | None, int | None, str]:
    """Exit code, signal and reason of a job that is over. A code that could not be read yet is None."""
    from nemo_runspec.script.markers import cause, decisive
    from nemo_runspec.script.pod_marker import to_marker

    ends = told.ends
    end = decisive(ends.values())
    if meaning.state == "succeeded":
        return 0, None, _unheard(handle, ends) if told.unread in ("", _NOT_YET) else ""
    if meaning.state == "cancelled":
        return CANCELLED, None, meaning.reason
    if meaning.state in ("lost", "unknown"):
        return None, None, meaning.reason
    if end is not None and end.exit_code:
        marker = to_marker(end)
        return end.exit_code, marker.signal, cause(marker)
    if out_of_memory(replicas):
        return _OOM, None, "out of memory, as Lepton says"
    if end is not None and not _missing_nodes(handle, ends):
        return 1, None, "Lepton says that it failed, although its program ended with exit code 0"
    return (None if told.unread else 1), None, waiting_of(replicas) or "Lepton says that it failed"
