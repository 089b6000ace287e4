"""Polls jobs of a platform: a few by their ids, many by a list; absence is confirmed before it is told."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nemo_runspec.backends.cloud.api import JsonTable
from nemo_runspec.backends.cloud.ending import LastLines, read_last_lines
from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.cloud.optional_requests import OptionalRequests
from nemo_runspec.backends.cloud.progress_here import with_progress
from nemo_runspec.backends.cloud.states import EXIT_CODES, StateMapping
from nemo_runspec.backends.provider import Handle, JobRef, Replica, handle_id
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.status import JobStatus, never_submitted
from nemo_runspec.transport.web import Malformed, Web

BY_ID = 64
"""Jobs that a list lacks and that are asked for by their ids with one look; the others with the next ones."""

SAMPLE = 16
"""Jobs of a list of which one look asks what they wait for; the others have their turn later."""


@dataclass(frozen=True, slots=True)
class JobDetail:
    """What was read of a job beside its state, for `collect` and `diagnose`: `JobStatus.detail` of every cloud.

    Args:
        row: the platform's own description.
        log: the last lines of its nodes, None where they were not asked for.
    """

    row: Mapping[str, Any]
    log: bytes | None = None


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a job before it ends.

    Args:
        mapping: its state.
        why: why it waits, or is as it is, in words; '' for the mapping's own reason.
        phase: which of its deadlines runs; '' for the mapping's, None where it was not asked what it waits for.
        nodes: the machines it has, with commas.
        failing: its image was asked for and refused, as it will be again.
        begun: some of its nodes run and others do not.
    """

    mapping: StateMapping
    why: str = ""
    phase: str | None = ""
    nodes: str = ""
    failing: bool = False
    begun: bool = False


class JobSource(ABC):
    """The questions by which a platform's jobs are found. Each raises `Malformed` for an answer that makes no sense.

    Attributes:
        platform: its name, for a person.
        few: so many jobs are asked for one by one, more of them by a list.
    """

    platform: str
    few: int

    @abstractmethod
    def by_id(self, handle: Handle) -> JsonTable | None:
        """The job of the handle's id, None where the platform says that there is none. One request."""

    @abstractmethod
    def by_name(self, handle: Handle) -> JsonTable | None:
        """The job of the handle's name and attempt, None where there is none."""

    @abstractmethod
    def listed(self, handles: Mapping[int, Handle]) -> Mapping[int, JsonTable]:
        """Those of the jobs that the platform's list has."""

    @abstractmethod
    def elsewhere(self, handles: Mapping[int, Handle]) -> Mapping[int, JsonTable]:
        """Those of the jobs, to which their ids do not lead, that a list has all the same: one answer may be stray."""


class JobReader(JobSource):
    """How jobs are, with what is asked besides, of a few of everything, of many of a sample; and how they ended.

    Args:
        webs: the connections to the platform.

    Attributes:
        requests: what is asked besides.
        absent: what is said of a job that the platform had, and has no more; `{id}` is its id.
        logged: states of jobs whose last lines are read.
        pauses: seconds before each look for them.
    """

    absent: str
    logged: frozenset[str] = frozenset({"succeeded", "failed"})
    pauses: Sequence[float]

    def __init__(self, *webs: Web | None) -> None:
        self.requests = OptionalRequests(self.platform, *webs)

    @abstractmethod
    def mapping_of(self, row: JsonTable) -> StateMapping:
        """Maps the platform's own words to a state."""

    @abstractmethod
    def sample(self, found: Mapping[int, StateMapping]) -> set[int]:
        """Of which of many jobs more is asked."""

    @abstractmethod
    def status_of(self, handle: JobRef, row: JsonTable, *, few: bool, asked: bool) -> JobStatus:
        """How a job is. `few`: no more are asked about at once. `asked`: it is one of the sample."""

    @abstractmethod
    def last_lines(self, handle: Handle, status: JobStatus) -> bytes:
        """The last lines of the nodes of a job that is over, end markers included."""

    @abstractmethod
    def expects_more(self, handle: Handle, status: JobStatus, lines: LastLines) -> bool:
        """True if lines may still come that tell more of how it ended."""

    @abstractmethod
    def ended(self, handle: Handle, status: JobStatus, lines: LastLines) -> JobStatus:
        """The end of a job, as its nodes say, else its platform."""

    def poll(self, handles: Sequence[JobRef]) -> list[JobStatus]:
        """Polls jobs, in the order of the handles; those that are over with their end.

        One without an id is looked for by its name, and `JobStatus.gone` where there is no such job. One that neither a
        list nor its id leads to is `JobStatus.absent`; one of which the answer makes no sense is `unknown`.

        Raises:
            UserError: the platform does not answer, or refuses.
        """
        return self.with_ends(handles, self.statuses(handles))

    def statuses(self, handles: Sequence[JobRef]) -> list[JobStatus]:
        """How jobs are by the platform. What was not asked, or not answered, is not among the facts."""
        rows, unclear = find_jobs(self, handles)
        few = len(handles) <= self.few
        asked = set(rows) if few else self.sample({n: self.mapping_of(row) for n, row in rows.items()})
        found = [
            self.status_of(handle, rows[n], few=few, asked=n in asked)
            if n in rows
            else missing(handle, self.absent.format(id=handle_id(handle)), unclear.get(n, ""))
            for n, handle in enumerate(handles)
        ]
        found = [replace(each, facts=replace(each.facts, unanswered=self.requests.summary())) for each in found]
        return [with_progress(*pair) for pair in zip(found, handles, strict=True)]

    def with_ends(
        self, handles: Sequence[Handle], statuses: Sequence[JobStatus], sleep: Callable[[float], None] = time.sleep
    ) -> list[JobStatus]:
        """The same with how jobs that are over ended. All of them are waited for at once."""
        ends = enumerate(zip(handles, statuses, strict=True))
        over = {n: with_id(*pair) for n, pair in ends if pair[1].state in self.logged and not pair[1].gone}
        lines = read_last_lines(
            over,
            self.requests,
            lambda n: self.last_lines(over[n], statuses[n]),
            lambda n, lines: self.expects_more(over[n], statuses[n], lines),
            self.pauses,
            sleep,
        )
        return [self.ended(over[n], each, lines[n]) if n in over else each for n, each in enumerate(statuses)]


def find_jobs(source: JobSource, handles: Sequence[Handle]) -> tuple[dict[int, JsonTable], dict[int, str]]:
    """The jobs that there are, by the handle's number; and why it is not known of others whether they are there.

    A handle without an id, or of which there may be another job (`doubt`), is looked for by its name.
    """
    found, unclear = dict[int, JsonTable](), dict[int, str]()
    for n, handle in enumerate(handles):
        if not handle_id(handle) or PodHandle(handle).is_doubted:
            _ask(source.by_name, n, handle, found, unclear)
    known = {n: each for n, each in enumerate(handles) if handle_id(each) and n not in found and n not in unclear}
    if len(known) > source.few:
        found |= source.listed(known)
    left = {n: handle for n, handle in known.items() if n not in found}
    asked = random.sample(sorted(left), min(BY_ID, len(left)))
    unclear |= {
        n: f"{source.platform}'s list lacks it; its id is asked for with a later look" for n in left if n not in asked
    }
    for n in asked:
        _ask(source.by_id, n, left[n], found, unclear)
    absent = {n: left[n] for n in asked if n not in found and n not in unclear}
    try:
        found |= source.elsewhere(absent) if absent else {}
    except Malformed as error:
        unclear |= dict.fromkeys(absent, error.what)
    return found, unclear


def _ask(
    ask: Callable[[Handle], JsonTable | None],
    n: int,
    handle: Handle,
    found: dict[int, JsonTable],
    unclear: dict[int, str],
) -> None:
    try:
        row = ask(handle)
    except Malformed as error:
        unclear[n] = error.what
        return
    if row:
        found[n] = row


def pick(
    rows: Iterable[JsonTable], handles: Mapping[int, Handle], id_of: Callable[[JsonTable], str]
) -> dict[int, JsonTable]:
    """The rows of jobs with ids. No further page is asked for once all are found."""
    wanted, found = {handle_id(handle) for handle in handles.values()}, dict[str, JsonTable]()
    for row in rows if wanted else ():
        if id_of(row) in wanted:
            found[id_of(row)] = row
        if len(found) == len(wanted):
            break
    return {n: found[id] for n, handle in handles.items() if (id := handle_id(handle)) in found}


def sample_waiting(states: Mapping[int, str], *wanted: str) -> set[int]:
    """At most `SAMPLE` of the jobs in the wanted states, those of the first state first, others with each look."""
    found: list[int] = []
    for state in wanted:
        some = [n for n, each in states.items() if each == state]
        found += random.sample(some, min(SAMPLE - len(found), len(some)))
    return set(found)


def missing(handle: Handle, absent: str, unclear: str) -> JobStatus:
    """A job that was not found.

    Args:
        absent: what is said of one that the platform had.
        unclear: why it is not known whether it is there.
    """
    if unclear:
        return JobStatus("unknown", unclear, facts=facts_of(handle))
    if not handle_id(handle):
        return never_submitted()
    return JobStatus("unknown", absent, facts=facts_of(handle), absent=True)


def with_id(handle: Handle, status: JobStatus) -> Handle:
    """The handle of a job that was found by its name."""
    return {**handle, "id": status.facts.id} if not handle_id(handle) and status.facts.id else handle


def nodes_of(pods: Iterable[Replica]) -> str:
    """The machines of pods, in their order, with commas."""
    return ",".join(dict.fromkeys(pod.node for pod in pods if pod.node))


def describe(
    handle: Handle,
    progress: JobProgress,
    detail: JobDetail,
    *,
    id: str,
    word: str,
    replicas: str = "",
    started: float | None = None,
    ended: float | None = None,
) -> JobStatus:
    """A job of which the platform says how it is.

    Args:
        id: the platform's.
        word: its own for the state.
        replicas: how many of several pods run, in words.
        started, ended: seconds since 1970, None where that is not known.
    """
    mapping, reason = progress.mapping, progress.why or progress.mapping.reason
    facts = replace(
        facts_of({**handle, "id": id}, word),
        nodes=progress.nodes,
        waiting=reason if mapping.phase else "",
        replicas=replicas,
        phase=None if progress.phase is None else progress.phase or mapping.phase,
        failing=progress.failing,
        begun=progress.begun,
    )
    code = EXIT_CODES.get(mapping.state)
    return JobStatus(mapping.state, reason, code, facts=facts, started=started, ended=ended, detail=detail)


def facts_of(handle: Handle, word: str = "") -> JobFacts:
    """The facts that every cloud's jobs have. `word`: the platform's own for the state."""
    return JobFacts(id=handle_id(handle), attempt=PodHandle(handle).attempt, platform_state=word)
