"""What has become of jobs: any number of them in one round trip, and never by one witness alone.

squeue is believed first. What it does not know any more, sacct says, where there is one; and where Slurm has forgotten
a job, the exit markers its nodes left. A controller that does not answer makes a state unknown, never lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nemo_runspec.backends.slurm.cluster.job import (
    ClusterJob,
    SlurmJobRef,
    StateMeaning,
    is_held,
    meaning_of,
    why_it_waits,
)
from nemo_runspec.backends.slurm.cluster.query import (
    CANNOT_WRITE,
    Fate,
    Remains,
    Row,
    SlurmAnswers,
    keeps_accounts,
    key_of,
    questions,
    read,
    script,
)
from nemo_runspec.errors import UserError
from nemo_runspec.script.markers import NodeMarker, cause, command_ran, decisive
from nemo_runspec.transport.base import Host

_TIMEOUT = 120.0
CANCELLED = 143
"""The exit code of a job that was cancelled before it began: that of one whose command was ended by TERM."""
NO_NODES = ("", "(null)", "None assigned")
"""What Slurm writes for the nodes of a job that never had any."""
_ORDER = ("running", "starting", "queued", "unknown", "lost", "failed", "cancelled", "succeeded")
"""An array is in the first of these states that one of its tasks is in."""


def look(host: Host, jobs: Iterable[SlurmJobRef], *, places: bool = False) -> dict[str, ClusterJob]:
    """The jobs by their ids, as they were asked. One round trip; none for no jobs.

    Args:
        places: also ask where waiting jobs stand among others, which makes Slurm send its whole queue.

    Raises:
        Unreachable: the host does not answer.
        UserError: it answers, but not as a login node does.
    """
    asked = list(jobs)
    if not asked:
        return {}
    done = host.run(script(places=places), data=questions(asked), timeout=_TIMEOUT)
    told = read(done.text)
    if not told.answered:
        raise UserError(f"{host.name} cannot be asked about jobs: {done.said or 'it says nothing'}")
    return {job.id: _elsewhere(job, told.slurm) or _verdict(_case(job, told)) for job in asked}


def _elsewhere(asked: SlurmJobRef, here: str) -> ClusterJob | None:
    """A job of another Slurm, as where an alias leads to another login node now. One of its id may be there too."""
    if not asked.slurm or not here or asked.slurm == here:
        return None
    return ClusterJob(asked.id, "unknown", f"this is cluster {here}, and the job was submitted to {asked.slurm}")


@dataclass(frozen=True, slots=True)
class _Case:
    """Everything about one job. `rows`: Slurm's newest word on it, or on each task of an array.

    `before`: what became of the attempt before, of one that Slurm has started again.
    """

    asked: SlurmJobRef
    rows: tuple[Row, ...]
    remains: Remains
    place: int | None
    before: Fate | None
    queue_problem: str
    accounts_problem: str


def _case(asked: SlurmJobRef, told: SlurmAnswers) -> _Case:
    number, _, cluster = asked.id.partition(";")
    number, _, task = number.partition("_")
    key = f"{number};{cluster}"
    rows = _newest(told.accounts.get(key, []), told.queue.get(key, []))
    return _Case(
        asked,
        tuple(row for row in rows if not task or str(row.task) == task),
        told.remains.get(key_of(asked.id), Remains(there=False)),
        told.places.get(key),
        told.before.get(key_of(asked.id)),
        told.problems.get(f"queue;{cluster}", ""),
        told.problems.get(f"accounts;{cluster}", ""),
    )


def _newest(accounts: list[Row], queue: list[Row]) -> Iterator[Row]:
    """One row for each task: squeue's, else sacct's of the last attempt, which knows of those before it."""
    listed = {row.task: row for row in queue}
    attempts: dict[int | None, list[Row]] = {}
    for row in accounts:
        attempts.setdefault(row.task, []).append(row)
    for task in sorted({*listed, *attempts}, key=lambda task: -1 if task is None else task):
        if task in listed:
            yield listed[task]
        else:
            last = max(attempts[task], key=lambda row: (row.started or float("inf")))
            yield replace(last, restarts=len(attempts[task]) - 1)


def _verdict(case: _Case) -> ClusterJob:
    if not case.rows:
        restarts = case.remains.begun or 0
        return _forgotten(_of_attempt(case, restarts), ClusterJob(case.asked.id, "unknown", restarts=restarts))
    found = tuple(_known(case, row) for row in case.rows)
    if "_" in case.asked.id or found[0].task is None:
        return found[0]
    return _array(case, found)


def _known(case: _Case, row: Row) -> ClusterJob:
    if row.task is not None and "_" not in case.asked.id:
        # What lies in one folder of a whole array is not this task's own.
        case = replace(case, remains=Remains(there=False, cancelled=case.remains.cancelled))
    row = replace(row, restarts=max(row.restarts, case.remains.begun or 0))
    case = _of_attempt(case, row.restarts)
    meaning = meaning_of(row.state)
    seen = replace(_seen(case, row, meaning), id=_id_of(case, row))
    if meaning.over and (row.listed or not case.queue_problem):
        return _ended(case, row, seen)
    if row.listed:
        return seen
    return _forgotten(case, seen)


def _of_attempt(case: _Case, restarts: int) -> _Case:
    """Without the markers of other attempts. One that names none, of an older script, is believed."""
    kept = tuple(marker for marker in case.remains.markers if marker.attempt in (None, restarts))
    return replace(case, remains=replace(case.remains, markers=kept))


def _id_of(case: _Case, row: Row) -> str:
    number, sign, cluster = case.asked.id.partition(";")
    return case.asked.id if row.task is None or "_" in number else f"{number}_{row.task}{sign}{cluster}"


def _seen(case: _Case, row: Row, meaning: StateMeaning) -> ClusterJob:
    waits = meaning.state == "queued"
    words = meaning.words or (why_it_waits(row.reason) if waits else "")
    held = waits and is_held(words)
    return ClusterJob(
        case.asked.id,
        meaning.state,
        "; ".join(filter(None, (_success_before(case, row, meaning), words))),
        slurm_state=row.state,
        slurm_reason=row.reason,
        nodes=row.nodes,
        elapsed=None if waits else row.elapsed,
        restarts=row.restarts,
        task=row.task,
        partition=row.partition,
        estimated=row.started if waits and not held else None,
        started=None if waits else row.started,
        ended=row.ended if meaning.over else None,
        position=case.place if waits and not held else None,
        markers=case.remains.markers,
    )


def _success_before(case: _Case, row: Row, meaning: StateMeaning) -> str:
    """A job may be put back after its command has ended well: by its owner, or as a node failed in that moment."""
    last = case.before
    if meaning.over or last is None or (last.attempt, last.exit_code, last.fate) != (row.restarts - 1, 0, "over"):
        return ""
    return f"attempt {row.restarts} of it succeeded, and Slurm has put it back into the queue"


def _ended(case: _Case, row: Row, seen: ClusterJob) -> ClusterJob:
    """Slurm says that it is over. Exit code and cause are the markers', where they are there and do not contradict."""
    marker = decisive(case.remains.markers)
    code, signal = row.exit_code or 0, row.signal
    stopped = case.remains.cancelled
    if seen.state == "cancelled" and marker is None and seen.nodes in NO_NODES:
        seen, code = replace(seen, elapsed=None, started=None), code or CANCELLED
    if stopped and (seen.state == "cancelled" or (marker is not None and marker.received)):
        return replace(_cancelled(seen, stopped), exit_code=_failing(code, signal))
    if seen.state == "succeeded":
        return _succeeded(case, seen)
    if marker is not None and marker.exit_code:
        said = cause(marker)
        why = said if not seen.reason or said.startswith(seen.reason) else f"{seen.reason}; {said}"
        return replace(seen, reason=why, exit_code=marker.exit_code, signal=marker.signal)
    if row.error is not None:
        return replace(seen, reason=_not_started(case, row.error), error=row.error)
    why = seen.reason or (f"killed by signal {signal}" if signal else f"exit code {code}")
    return replace(seen, reason=why, exit_code=_failing(code, signal), signal=signal)


def _not_started(case: _Case, error: int) -> str:
    if error == CANNOT_WRITE and case.asked.job_dir:
        return f"the nodes cannot write to {case.asked.job_dir}: it was not started, and has no exit code"
    return f"Slurm could not start it (its error {error}), and it has no exit code"


def _succeeded(case: _Case, seen: ClusterJob) -> ClusterJob:
    """COMPLETED is exit status 0 of the batch script. That the command ran only the markers say."""
    markers = case.remains.markers
    if not case.asked.job_dir or (not case.remains.there and not markers):
        return replace(seen, exit_code=0)
    marker = decisive(markers)
    if marker is not None and marker.exit_code:
        return replace(seen, state="failed", reason=cause(marker), exit_code=marker.exit_code, signal=marker.signal)
    if not command_ran(markers, case.asked.nodes):
        return replace(seen, state="failed", reason="the job script ended without running the command", exit_code=1)
    return replace(seen, reason=_told(marker), exit_code=0)


def _forgotten(case: _Case, seen: ClusterJob) -> ClusterJob:
    """squeue does not list it. `seen`: what sacct says, which may be late, or an empty job."""
    if case.queue_problem:
        last = f"; sacct last said {seen.slurm_state}" if seen.slurm_state else ""
        return replace(seen, state="unknown", reason=f"Slurm does not answer ({case.queue_problem}){last}")
    marker = decisive(case.remains.markers)
    if marker is not None and marker.exit_code:
        by = case.remains.cancelled if marker.received else ""
        known = _cancelled(seen, by) if by else replace(seen, state="failed", reason=_cause(case, marker))
        return replace(known, exit_code=marker.exit_code, signal=marker.signal)
    if command_ran(case.remains.markers, case.asked.nodes):
        return replace(seen, state="succeeded", reason=_told(marker), exit_code=0)
    if seen.slurm_state:
        said = f"squeue no longer lists it, and sacct still says {seen.slurm_state}"
        return replace(seen, state="unknown", reason=said)
    if case.accounts_problem and keeps_accounts(case.accounts_problem):
        said = f"squeue no longer lists it, and sacct does not answer ({case.accounts_problem})"
        return replace(seen, state="unknown", reason=said)
    if case.remains.cancelled and marker is None:
        # A task of an array that is cancelled while it waits leaves no trace in squeue (seen with Slurm 22.05).
        return replace(_cancelled(seen, case.remains.cancelled), exit_code=CANCELLED)
    said = f"Slurm no longer knows it, and it left {_left(case)}{_nobody_knows(case)}"
    return replace(seen, state="lost", reason=said)


def _cancelled(seen: ClusterJob, by: str) -> ClusterJob:
    return replace(seen, state="cancelled", reason=f"cancelled by {by}", by=by)


def _cause(case: _Case, marker: NodeMarker) -> str:
    """Why it failed, of a job that Slurm has forgotten. That Slurm ended it its batch script has seen, not for whom."""
    fate = case.remains.fate
    if fate is None or fate.attempt != marker.attempt or fate.reason_code != "slurm":
        return cause(marker)
    return f"Slurm ended it, and no longer says why: somebody's scancel, perhaps{_no_accounts(case)}"


def _nobody_knows(case: _Case) -> str:
    """What there is to know of a job that has left nothing, where no accounts are kept."""
    more = _no_accounts(case)
    if not more or not case.remains.there:
        return more
    begun = "it had begun" if case.remains.begun is not None else "it had not begun, so that it may have been cancelled"
    return f"; {begun}{more}"


def _no_accounts(case: _Case) -> str:
    known = not case.accounts_problem or keeps_accounts(case.accounts_problem)
    return "" if known else "; this cluster keeps no accounts (slurmdbd), so that nobody can tell"


def _told(marker: NodeMarker | None) -> str:
    """What there is to know of a success: that its command was cut short, and ended with 0."""
    return marker.reason if marker else ""


def _left(case: _Case) -> str:
    if case.asked.job_dir and not case.remains.there:
        return "no directory"
    missing = set(range(case.asked.nodes)) - {marker.node for marker in case.remains.markers}
    if not case.remains.markers:
        return "no exit marker"
    return f"no exit marker of node {', '.join(map(str, sorted(missing)))}"


def _failing(code: int, signal: int | None) -> int:
    return code or (128 + signal if signal else 1)


def _array(case: _Case, tasks: tuple[ClusterJob, ...]) -> ClusterJob:
    state = next(state for state in _ORDER if any(task.state == state for task in tasks))
    counts = {name: sum(task.state == name for task in tasks) for name in _ORDER}
    said = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    first = next(task for task in tasks if task.state == state)
    return replace(first, id=case.asked.id, task=None, reason=f"{len(tasks)} tasks: {said}", tasks=tasks)
