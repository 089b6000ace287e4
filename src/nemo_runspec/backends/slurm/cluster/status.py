"""The state of jobs: any number of them in one round trip, and never by one witness alone.

squeue is believed first. What it does not know any more, sacct says, where there is one; and where Slurm has forgotten
a job, the exit markers its nodes left. A controller that does not answer makes a state unknown, never lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nemo_runspec.backends.slurm.cluster.job import ClusterJob, SlurmJobRef, SlurmState, reason_of, state_of, task_id
from nemo_runspec.backends.slurm.cluster.query import (
    CANNOT_WRITE,
    AttemptOutcome,
    JobFiles,
    SlurmAnswers,
    SlurmRow,
    keeps_accounts,
    key_of,
    questions,
    read_answers,
    script,
)
from nemo_runspec.errors import UserError
from nemo_runspec.script.markers import NodeMarker, cause, deciding_marker, marked_end
from nemo_runspec.transport.base import Host

_TIMEOUT = 120.0
CANCELLED = 143
"""The exit code of a job that was cancelled before it began: that of one whose command was ended by TERM."""
NO_NODES = ("", "(null)", "None assigned")
"""What Slurm writes for the nodes of a job that never had any."""
_ORDER = ("running", "starting", "queued", "unknown", "lost", "failed", "cancelled", "succeeded")
"""An array is in the first of these states that one of its tasks is in."""


def query_jobs(host: Host, refs: Iterable[SlurmJobRef], *, positions: bool = False) -> dict[str, ClusterJob]:
    """The jobs by their ids, as they were asked. One round trip; none for no jobs.

    Args:
        positions: also ask where waiting jobs stand among others, which makes Slurm send its whole queue, and what
            running jobs have written last of their metrics.

    Raises:
        Unreachable: the host does not answer.
        UserError: it answers, but not as a login node does.
    """
    refs = list(refs)
    if not refs:
        return {}
    done = host.run(script(positions=positions), data=questions(refs), timeout=_TIMEOUT)
    answers = read_answers(done.text)
    if not answers.answered:
        raise UserError(f"{host.name} cannot be asked about jobs: {done.said or 'it says nothing'}")
    return {ref.id: _elsewhere(ref, answers.slurm) or _answered(ref, answers) for ref in refs}


def _answered(ref: SlurmJobRef, answers: SlurmAnswers) -> ClusterJob:
    job, metrics = _job(_case(ref, answers)), answers.metrics.get(key_of(ref.id))
    return replace(job, metrics=metrics) if metrics and job.state == "running" else job


def _elsewhere(ref: SlurmJobRef, here: str) -> ClusterJob | None:
    """A job of another Slurm, as where an alias leads to another login node now. One of its id may be there too."""
    if not ref.slurm or not here or ref.slurm == here:
        return None
    return ClusterJob(ref.id, "unknown", f"this is cluster {here}, and the job was submitted to {ref.slurm}")


@dataclass(frozen=True, slots=True)
class _Case:
    """Everything about one job.

    Args:
        rows: Slurm's newest one about it, or about each task of an array.
        previous: the outcome of the attempt before, of a job that Slurm has started again.
    """

    ref: SlurmJobRef
    rows: tuple[SlurmRow, ...]
    files: JobFiles
    position: int | None
    previous: AttemptOutcome | None
    queue_problem: str
    accounts_problem: str

    @property
    def no_accounts(self) -> str:
        """What is to be added to a state that only accounts could tell, where the cluster keeps none."""
        known = not self.accounts_problem or keeps_accounts(self.accounts_problem)
        return "" if known else "; this cluster keeps no accounts (slurmdbd), so that nobody can tell"


def _case(ref: SlurmJobRef, answers: SlurmAnswers) -> _Case:
    number, _, cluster = ref.id.partition(";")
    number, _, task = number.partition("_")
    key = f"{number};{cluster}"
    rows = _newest(answers.accounts.get(key, []), answers.queue.get(key, []))
    return _Case(
        ref,
        tuple(row for row in rows if not task or str(row.task) == task),
        answers.files.get(key_of(ref.id), JobFiles(there=False)),
        answers.positions.get(key),
        answers.previous.get(key_of(ref.id)),
        answers.problems.get(f"queue;{cluster}", ""),
        answers.problems.get(f"accounts;{cluster}", ""),
    )


def _newest(accounts: list[SlurmRow], queue: list[SlurmRow]) -> Iterator[SlurmRow]:
    """One row for each task: squeue's, else sacct's of the last attempt, which knows of those before it."""
    listed = {row.task: row for row in queue}
    attempts: dict[int | None, list[SlurmRow]] = {}
    for row in accounts:
        attempts.setdefault(row.task, []).append(row)
    for task in sorted({*listed, *attempts}, key=lambda task: -1 if task is None else task):
        if task in listed:
            yield listed[task]
        else:
            last = max(attempts[task], key=lambda row: (row.started or float("inf")))
            yield replace(last, restarts=len(attempts[task]) - 1)


def _job(case: _Case) -> ClusterJob:
    if not case.rows:
        restarts = case.files.begun or 0
        return _forgotten(_of_attempt(case, restarts), ClusterJob(case.ref.id, "unknown", restarts=restarts))
    jobs = tuple(_job_of_row(case, row) for row in case.rows)
    if "_" in case.ref.id or jobs[0].task is not None:
        return jobs[0] if "_" in case.ref.id else _array(case, jobs)
    if not case.ref.tasks or case.accounts_problem or jobs[0].state not in _ENDED:
        return jobs[0]
    # A row of one of its tasks, which sacct does not call by its number yet: it says nothing of the others.
    return _array(case, jobs[1:] or jobs)


def _job_of_row(case: _Case, row: SlurmRow) -> ClusterJob:
    if row.task is not None and "_" not in case.ref.id:
        # What lies in one folder of a whole array is not this task's own.
        case = replace(case, files=JobFiles(there=False, cancelled=case.files.cancelled))
    row = replace(row, restarts=max(row.restarts, case.files.begun or 0))
    case = _of_attempt(case, row.restarts)
    state = state_of(row.state)
    job = _listed(case, row, state)
    if state.over and (row.listed or not case.queue_problem):
        return _ended(case, row, job)
    return job if row.listed else _forgotten(case, job)


def _of_attempt(case: _Case, restarts: int) -> _Case:
    """Without the markers of other attempts. One that names none, of an older script, is believed."""
    kept = tuple(marker for marker in case.files.markers if marker.attempt in (None, restarts))
    return replace(case, files=replace(case.files, markers=kept))


def _listed(case: _Case, row: SlurmRow, state: SlurmState) -> ClusterJob:
    """The job as its row has it."""
    waits = state.state == "queued"
    waiting = reason_of(row.reason)
    reason = state.reason or (waiting.words if waits else "")
    has_place = waits and not (state.held or waiting.held)
    is_named = "_" in case.ref.id.partition(";")[0]
    return ClusterJob(
        case.ref.id if row.task is None or is_named else task_id(case.ref.id, row.task),
        state.state,
        "; ".join(filter(None, (_success_before(case, row, state), reason))),
        slurm_state=row.state,
        slurm_reason=row.reason,
        nodes=row.nodes,
        elapsed=None if waits else row.elapsed,
        restarts=row.restarts,
        task=row.task,
        partition=row.partition,
        estimated=row.started if has_place else None,
        started=None if waits else row.started,
        ended=row.ended if state.over else None,
        position=case.position if has_place else None,
        markers=case.files.markers,
    )


def _success_before(case: _Case, row: SlurmRow, state: SlurmState) -> str:
    """A job may be put back after its command has ended well: by its owner, or as a node failed in that moment."""
    last = case.previous
    if state.over or last is None or (last.attempt, last.exit_code, last.outcome) != (row.restarts - 1, 0, "over"):
        return ""
    return f"attempt {row.restarts} of it succeeded, and Slurm has put it back into the queue"


def _ended(case: _Case, row: SlurmRow, job: ClusterJob) -> ClusterJob:
    """Slurm says that it is over. Exit code and cause are the markers', where they are there and do not contradict."""
    marker = deciding_marker(case.files.markers)
    code, signal = row.exit_code or 0, row.signal
    by = case.files.cancelled
    if job.state == "cancelled" and marker is None and job.nodes in NO_NODES:
        job, code = replace(job, elapsed=None, started=None), code or CANCELLED
    if by and (job.state == "cancelled" or (marker is not None and marker.received)):
        return replace(_cancelled(job, by), exit_code=_failing(code, signal))
    if job.state == "succeeded":
        return _succeeded(case, job)
    if marker is not None and marker.exit_code:
        own = cause(marker)
        reason = own if not job.reason or own.startswith(job.reason) else f"{job.reason}; {own}"
        return _failed(job, marker, reason)
    if row.error is not None:
        return replace(job, reason=_not_started(case, row.error), error=row.error)
    reason = job.reason or (f"killed by signal {signal}" if signal else f"exit code {code}")
    return replace(job, reason=reason, exit_code=_failing(code, signal), signal=signal)


def _not_started(case: _Case, error: int) -> str:
    if error == CANNOT_WRITE and case.ref.job_dir:
        return f"the nodes cannot write to {case.ref.job_dir}: it was not started, and has no exit code"
    return f"Slurm could not start it (its error {error}), and it has no exit code"


def _succeeded(case: _Case, job: ClusterJob) -> ClusterJob:
    """COMPLETED is exit status 0 of the batch script. That the command ran only the markers say."""
    markers = case.files.markers
    if not case.ref.job_dir or (not case.files.there and not markers):
        return replace(job, exit_code=0)
    end = marked_end(markers, case.ref.nodes)
    if end.exit_code:
        return replace(job, state="failed", reason=end.cause, exit_code=end.exit_code, signal=end.signal)
    marker = deciding_marker(markers)
    return replace(job, reason=marker.reason if marker else "", exit_code=0)


def _forgotten(case: _Case, job: ClusterJob) -> ClusterJob:
    """squeue does not list it. `job`: what sacct says, which may be late, or an empty one."""
    if case.queue_problem:
        last = f"; sacct last said {job.slurm_state}" if job.slurm_state else ""
        return replace(job, state="unknown", reason=f"Slurm does not answer ({case.queue_problem}){last}")
    marker = deciding_marker(case.files.markers)
    if marker is not None and marker.exit_code:
        if marker.received and case.files.cancelled:
            job = _cancelled(job, case.files.cancelled)
            return _failed(job, marker, job.reason)
        return _failed(replace(job, state="failed"), marker, _cause(case, marker))
    if marked_end(case.files.markers, case.ref.nodes).exit_code == 0:
        return replace(job, state="succeeded", reason=marker.reason if marker else "", exit_code=0)
    if job.slurm_state:
        reason = f"squeue no longer lists it, and sacct still says {job.slurm_state}"
        return replace(job, state="unknown", reason=reason)
    if case.accounts_problem and keeps_accounts(case.accounts_problem):
        reason = f"squeue no longer lists it, and sacct does not answer ({case.accounts_problem})"
        return replace(job, state="unknown", reason=reason)
    if case.files.cancelled and marker is None:
        # A task of an array that is cancelled while it waits leaves no trace in squeue (seen with Slurm 22.05).
        return replace(_cancelled(job, case.files.cancelled), exit_code=CANCELLED)
    reason = f"Slurm no longer knows it, and it left {_missing(case)}{_begun(case)}{case.no_accounts}"
    return replace(job, state="lost", reason=reason)


def _cancelled(job: ClusterJob, by: str) -> ClusterJob:
    return replace(job, state="cancelled", reason=f"cancelled by {by}", by=by)


def _failed(job: ClusterJob, marker: NodeMarker, reason: str) -> ClusterJob:
    return replace(job, reason=reason, exit_code=marker.exit_code, signal=marker.signal)


def _cause(case: _Case, marker: NodeMarker) -> str:
    """Why it failed, of a job that Slurm has forgotten. That Slurm ended it its batch script has seen, not for whom."""
    outcome = case.files.outcome
    if outcome is None or outcome.attempt != marker.attempt or outcome.reason_code != "slurm":
        return cause(marker)
    return f"Slurm ended it, and no longer says why: somebody's scancel, perhaps{case.no_accounts}"


def _begun(case: _Case) -> str:
    """Whether a job had begun that has left nothing, where no accounts are kept."""
    if not case.no_accounts or not case.files.there:
        return ""
    begun = case.files.begun is not None
    return "; it had begun" if begun else "; it had not begun, so that it may have been cancelled"


def _missing(case: _Case) -> str:
    if case.ref.job_dir and not case.files.there:
        return "no directory"
    missing = set(range(case.ref.nodes)) - {marker.node for marker in case.files.markers}
    if not case.files.markers:
        return "no exit marker"
    return f"no exit marker of node {', '.join(map(str, sorted(missing)))}"


def _failing(code: int, signal: int | None) -> int:
    return code or (128 + signal if signal else 1)


_ENDED = frozenset({"succeeded", "failed"})


def _array(case: _Case, tasks: tuple[ClusterJob, ...]) -> ClusterJob:
    counts = {state: sum(task.state == state for task in tasks) for state in _ORDER}
    first = next(task for state in _ORDER for task in tasks if task.state == state)
    shown = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    whole = replace(first, id=case.ref.id, task=None, reason=f"{len(tasks)} tasks: {shown}", tasks=tasks)
    told = sum(task.task is not None for task in tasks)
    if {task.state for task in tasks} <= _ENDED and told < case.ref.tasks and not case.accounts_problem:
        # sacct learns of each task by itself, and those that it does not list yet may run, or have failed.
        reason = f"Slurm tells of {told} of its {case.ref.tasks} tasks: {shown}"
        return replace(whole, state="unknown", reason=reason, exit_code=None)
    return whole
