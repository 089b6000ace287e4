"""What run:ai says of jobs, in the words that all platforms share: one list for many, more detail for a single one."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from nemo_runspec.backends.cloud.aside import Aside
from nemo_runspec.backends.dgxcloud.api import PAGE, Row, RunaiApi
from nemo_runspec.backends.dgxcloud.pending import PODS, Wait, unasked, wait_of
from nemo_runspec.backends.dgxcloud.states import (
    ENDING,
    EXIT_CODES,
    NEVER_RAN,
    PHASES,
    PLACED,
    Meaning,
    is_begun,
    meaning_of,
)
from nemo_runspec.backends.dgxcloud.timeline import began, never_ran
from nemo_runspec.jobs.record import is_over
from nemo_runspec.remote.provider import Handle, JobRef, JobStatus
from nemo_runspec.transport.reading import moment, table, text, whole
from nemo_runspec.transport.web import Malformed, Refused

_NO_WAIT = Wait()

_FEW = 2
"""Jobs up to this number are asked about one by one: a list would be the whole project's."""

_DELETED = 4 * PAGE
"""Deleted workloads that are looked through at most, the newest first."""

_ASKED = 16
"""Jobs of a list that wait, of which each look asks for what: those that start first; others have their turn later."""

_BY_ID = 64
"""Jobs that a list lacks and that are asked for by their ids with one look; the others with the next ones."""

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
    aside = Aside("run:ai", api.web)
    found = [_one(api, aside, handle) for handle in handles] if len(handles) <= _FEW else _many(api, aside, handles)
    found = [replace(seen, facts={**seen.facts, **aside.facts()}) for seen in found]
    for seen in found:
        if seen.facts.get("id"):
            _remember(str(seen.facts["id"]), seen.state)
    return found


def _many(api: RunaiApi, aside: Aside, handles: Sequence[Handle]) -> list[JobStatus]:
    rows = _listed(api.workloads([_project(handles[0])]), handles)
    left = [handle for handle in handles if handle.get("id") and _key(handle) not in rows]
    more, odd = _by_id(api, left)
    rows |= more
    pairs = [(handle, rows.get(_key(handle))) for handle in handles]
    asked = _asked([meaning_of(row).state if row else "" for _, row in pairs])
    return [
        _odd(pair[0], odd[_key(pair[0])])
        if _key(pair[0]) in odd
        else _described(api, aside, *pair, few=False, ask=n in asked)
        for n, pair in enumerate(pairs)
    ]


def _by_id(api: RunaiApi, handles: Sequence[Handle]) -> tuple[dict[str, Row], dict[str, str]]:
    """Jobs that the list of those that are there lacks: by their ids, else as the list of those deleted has them.

    Returns: the rows, and why of others it is not known whether they are there.
    """
    rows, odd = dict[str, Row](), {_key(each): "run:ai's list lacks it; its id is asked for later" for each in handles}
    for handle in random.sample(list(handles), min(_BY_ID, len(handles))):
        try:
            row = _detail(api, str(handle["id"]))
        except Malformed as error:
            odd[_key(handle)] = error.what
            continue
        odd.pop(_key(handle), None)  # a job may be asked about twice
        rows |= {_key(handle): row} if row else {}
    gone = [handle for handle in handles if _key(handle) not in rows and _key(handle) not in odd]
    deleted = api.workloads([_project(gone[0])], deleted=True) if gone else ()
    return rows | _listed(islice(deleted, _DELETED), gone), odd


def _asked(states: Sequence[str]) -> set[int]:
    """Which jobs of a list it is asked about what they wait for, or since when they ran."""
    over = [n for n, state in enumerate(states) if state and is_over(state)][:_ASKED]
    found: list[int] = []
    for wanted in ("starting", "queued"):
        some = [n for n, state in enumerate(states) if state == wanted]
        found += random.sample(some, min(_ASKED - len(found), len(some)))
    return {*found, *over}


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
    state = "unknown" if row is None else meaning_of(row).state
    _remember(str(handle["id"]), state)
    return state


def seen_of(
    handle: Handle,
    row: Row | None,
    wait: Wait = _NO_WAIT,
    nodes: str = "",
    started: float | None = None,
    known: Meaning | None = None,
) -> JobStatus:
    """A row of run:ai's as `JobStatus`.

    Args:
        row: of a list or a detail; None where there is no such workload any more.
        wait: why it waits and for what. `nodes`: where it runs, '' where that was not asked.
        started: when the first of its containers did, None where that was not asked, or none has.
        known: what its phase means, where that is not all that is known.
    """
    if row is None:
        return _missing(handle)
    phase = _phase(row)
    usual = known or meaning_of(row)
    found = _after_deletion(handle, row, PLACED if wait.placed and usual.state == "queued" else usual)
    over = is_over(found.state)
    said = text(row.get("phaseMessage")) or found.said
    return JobStatus(
        found.state,
        "" if found.state == "succeeded" else wait.why or said,
        exit_code=EXIT_CODES.get(found.state),
        facts={
            **_facts(handle, row, phase, wait.why or said if found.waits else "", nodes or wait.nodes),
            **({} if wait.phase is None else {"phase": wait.phase or found.waits}),
            **({"failing": True} if wait.failing else {}),
            **({"begun": True} if is_begun(row) else {}),
        },
        started=started,
        ended=(moment(row.get("completedAt")) or moment(row.get("phaseUpdatedAt"))) if over else None,
        detail=row,
    )


def _one(api: RunaiApi, aside: Aside, handle: Handle) -> JobStatus:
    try:
        row = _row_of(api, handle)
    except Malformed as error:
        return _odd(handle, error.what)
    return seen_of(handle, None) if row is None else _described(api, aside, handle, row, few=True, ask=True)


def _row_of(api: RunaiApi, handle: Handle) -> Row | None:
    """A job's row: its id's, else that of a list. That its id leads to none may be a stray answer."""
    if not handle.get("id"):
        return find(api, handle)
    return _detail(api, str(handle["id"])) or _in_list(api, handle) or _in_list(api, handle, deleted=True)


def _odd(handle: Handle, why: str) -> JobStatus:
    """A job of which it is not known how it is, nor whether it is there."""
    return JobStatus("unknown", why, facts={"id": handle["id"]} if handle.get("id") else {})


def _described(api: RunaiApi, aside: Aside, handle: Handle, row: Row | None, *, few: bool, ask: bool) -> JobStatus:
    """A row with what is asked besides: why it waits or since when it ran where `ask`, and where it runs or ran."""
    if row is None:
        return seen_of(handle, None)
    known, nodes, started = meaning_of(row), "", None
    if _phase(row) in ENDING and not _has_run(api, aside, row, ask=few):
        return seen_of(handle, row, known=NEVER_RAN)
    if ask and is_over(known.state):
        started = began(api, aside, workload_id(row))
    if known.state == "failed" or (few and (known.state == "running" or is_over(known.state))):
        nodes = nodes_of(api, aside, row)
    return seen_of(handle, row, _wait(api, aside, row, known, few=few, ask=ask), nodes, started)


def _wait(api: RunaiApi, aside: Aside, row: Row, known: Meaning, *, few: bool, ask: bool) -> Wait:
    """What a workload waits for. One of which that is not asked now starts where it did a moment ago."""
    if not known.waits:
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
    try:
        return api.detail(id)
    except Refused as error:
        if error.status != 404:
            raise
        return None


def _in_list(api: RunaiApi, handle: Handle, *, deleted: bool = False) -> Row | None:
    rows = api.workloads([f"name=={workload_name(handle)}", _project(handle)], deleted=deleted)
    return next((row for row in rows if row.get("id") == handle["id"]), None)


def _phase(row: Row) -> str:
    return text(row.get("phase")) or text(row.get("actualPhase"))


def _remember(id: str, state: str) -> None:
    _KNOWN[id] = (time.monotonic(), state)


def _listed(rows: Iterable[Row], handles: Sequence[Handle]) -> dict[str, Row]:
    """The rows of these handles; no further page is asked for once all are found."""
    wanted = {_key(handle) for handle in handles}
    found: dict[str, Row] = {}
    for row in rows:
        for key in {workload_id(row), f"name={text(row.get('name'))}"} & wanted:
            found[key] = row
        if len(found) == len(wanted):
            break
    return found


def _key(handle: Handle) -> str:
    return str(handle.get("id") or f"name={workload_name(handle)}")


def _project(handle: Handle) -> str:
    return f"projectId=={handle['project_id']}" if handle.get("project_id") else f"projectName=={handle['project']}"


def _after_deletion(handle: Handle, row: Row, found: Meaning) -> Meaning:
    """A workload that was deleted while it ran ended by that; one that was over before keeps its end."""
    if moment(row.get("deletedAt")) is None or is_over(found.state):
        return found
    if isinstance(handle, JobRef) and handle.stopped_by:
        return Meaning("cancelled", "", "deleted from run:ai")
    return Meaning("lost", "", "it was deleted from run:ai while it was there; how it ended is not known")


def _missing(handle: Handle) -> JobStatus:
    if not handle.get("id"):
        return JobStatus("failed", "it was never submitted: nemotron ended before it did", exit_code=1, gone=True)
    facts = {"id": handle["id"]}
    return JobStatus("unknown", "run:ai has it no more; how it ended is not known", facts=facts, absent=True)


def _facts(handle: Handle, row: Row, phase: str, waiting: str, nodes: str) -> dict[str, Any]:
    facts = {
        "id": workload_id(row),
        "nodes": nodes,
        "attempt": int(handle.get("attempt") or 0),
        "waiting": waiting,
        "platform_state": phase,
        "replicas": _replicas(row) if phase in PHASES and not is_over(PHASES[phase].state) else "",
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}


def _replicas(row: Row) -> str:
    number = whole(table(row.get("requestedPods")).get("number")) or 0
    return f"{whole(row.get('runningPods')) or 0} of {number} ready" if number > 1 else ""
