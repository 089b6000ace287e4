"""The one question about any number of jobs: squeue, then sacct and what is left of those that squeue does not settle.

Seen with Slurm 22.05: squeue and sacct print the separator of `--Format` and `--delimiter` as it is given, control
characters too, and times by `SLURM_TIME_FORMAT`. squeue's `exit_code` is a wait status (768 is exit code 3) and, of a
job that waits again, the one of its last attempt. One unknown id is an error, one of several is left out in silence.
A lagging sacct has no row, then one of the job name `allocation` without a partition, even seconds after the end; with
`--duplicates` each attempt is a row, those before the last `REQUEUED`. Without accounts sacct ends with 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from nemo_runspec.backends.slurm.cluster import FIELD, Section, read_sections, script_of, whole
from nemo_runspec.backends.slurm.cluster.job import STATES, SlurmJobRef
from nemo_runspec.duration import hours
from nemo_runspec.records.progress import MetricsEnds
from nemo_runspec.script.markers import NodeMarker, parse_marker

SECONDS = 25
"""How long squeue and sacct may take each; Slurm waits 10 s for an answer (MessageTimeout) and 9 s for a controller."""

UNSETTLED = "|".join(name for name, state in STATES.items() if not state.over)
"""Slurm's states of jobs that are not over, as a regular expression."""

_QUEUE = (
    "JobID", "ArrayJobID", "ArrayTaskID", "State", "Partition", "Reason", "exit_code", "RestartCnt", "NodeList",
    "StartTime", "EndTime", "TimeUsed",
)  # fmt: skip
_ACCOUNTS = ("JobID", "State", "Partition", "ExitCode", "NodeList", "Start", "End", "ElapsedRaw")
"""`Restarts` came to sacct after 22.05."""

CANNOT_WRITE = 4021
"""Slurm's error where a node cannot open what the batch script is to write; sacct shows it as `0:53`. Seen in 22.05."""

ENDED_BY_SLURM = "Slurm ended the job"
"""The reason of an attempt that Slurm ended, neither at its time limit nor for another job, without a code."""

_OUTCOME = re.compile(
    r"attempt=([0-9]{1,9}) exit_code=([0-9]{1,3}) fate=(\w+) ended=\d*(?: reason_code=(\w*))? reason=(.*)", re.ASCII
)
"""A line of `status/attempts`, as jobside/batch.py writes it."""

_HEAD = re.compile(r"==> (.*) <==")
"""The line of tail(1) before each of several files."""

_UNKNOWN_ID = "Invalid job id specified"
_NO_ACCOUNTS = ("accounting storage is disabled", "command not found", "No such file or directory")


@dataclass(frozen=True, slots=True)
class SlurmRow:
    """One row of squeue (`listed`) or sacct. Times are seconds since 1970, `elapsed` in seconds.

    `error`: a number of Slurm's own (slurm_errno.h), of a job that it could not start; it has no exit code then.
    """

    task: int | None
    state: str
    listed: bool = False
    partition: str = ""
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    restarts: int = 0
    nodes: str = ""
    started: float | None = None
    ended: float | None = None
    elapsed: float | None = None
    error: int | None = None


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """The end of a job's attempt, as its batch script wrote it down (jobside/batch.py).

    Args:
        attempt: from 0.
        outcome: `over`, `slurm`, `retried`, `requeued` or `continued`.
        reason: in words.
        reason_code: the same as a code; what earlier releases wrote has `slurm` alone.
    """

    attempt: int
    exit_code: int
    outcome: str
    reason: str
    reason_code: str = ""


@dataclass(frozen=True, slots=True)
class JobFiles:
    """What lies in a job's directory.

    Args:
        there: False where it is gone.
        cancelled: who asked the job to stop.
        begun: how often it had been started again when its script began last; None where none ever began.
        outcome: of its last attempt, where that is known.
        markers: of all attempts.
    """

    there: bool
    cancelled: str = ""
    begun: int | None = None
    outcome: AttemptOutcome | None = None
    markers: tuple[NodeMarker, ...] = ()


@dataclass(slots=True)
class SlurmAnswers:
    """Everything that was answered, by job id as `key_of` writes it.

    Args:
        problems: why squeue or sacct did not answer, by `queue;cluster` and `accounts;cluster`.
        previous: outcomes of the attempt before, of jobs that Slurm has started again.
        positions: of waiting jobs in the queue, from 1.
        metrics: of running jobs, where they write some.
        answered: False where the script did not run.
        slurm: the name of the Slurm that answers, '' where it is not known.
    """

    queue: dict[str, list[SlurmRow]] = field(default_factory=dict)
    accounts: dict[str, list[SlurmRow]] = field(default_factory=dict)
    files: dict[str, JobFiles] = field(default_factory=dict)
    previous: dict[str, AttemptOutcome] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    metrics: dict[str, MetricsEnds] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    answered: bool = False
    slurm: str = ""


def script(*, positions: bool = False) -> str:
    """The bash script; what it is asked comes by its input."""
    return script_of(
        "cluster/query.sh",
        seconds=str(SECONDS),
        places="yes" if positions else "",
        unsettled=UNSETTLED,
        queue_fields=",".join(f"{name}:{FIELD}" for name in _QUEUE),
        account_fields=",".join(_ACCOUNTS),
    )


def key_of(id: str) -> str:
    """A job's id with its cluster: `12` as `12;`."""
    number, _, cluster = id.partition(";")
    return f"{number};{cluster}"


def questions(jobs: Iterable[SlurmJobRef]) -> bytes:
    """The script's input. An array is asked for as a whole where several of its tasks are."""
    refs = {key_of(job.id): job for job in jobs}
    tasks = Counter(_array_of(key) for key in refs)
    lines = []
    for key, job in refs.items():
        number, _, cluster = (_array_of(key) if tasks[_array_of(key)] > 1 else key).partition(";")
        lines.append(FIELD.join((key.partition(";")[0], cluster, job.job_dir, number, job.slurm, job.name)) + "\n")
    return "".join(lines).encode("utf-8", "surrogateescape")


def read_answers(text: str) -> SlurmAnswers:
    """The script's answer."""
    answers = SlurmAnswers()
    for section in read_sections(text):
        kind, _, key = section.name.partition(";")
        if kind == "queue":
            _add(answers.queue, section, (_queue_row(row, key) for row in section.rows if len(row) > len(_QUEUE)))
        elif kind == "accounts":
            _add(answers.accounts, section, (_account_row(row, key) for row in section.rows if _is_account(row)))
        elif kind == "remains":
            answers.files[key] = _files(section)
        elif kind == "before" and (outcome := _outcome(section)):
            answers.previous[key] = outcome
        elif kind == "places":
            positions = ((row[0], whole(row[1])) for row in section.rows)
            answers.positions.update({f"{id};{key}": position for id, position in positions if position})
        elif kind == "metrics":
            answers.metrics = _metrics(section)
        elif kind == "slurm":
            answers.slurm = section.said
        answers.answered = answers.answered or kind == "queue"
        if kind in ("queue", "accounts") and section.code and _UNKNOWN_ID not in section.reason:
            answers.problems[section.name] = section.reason or f"exit code {section.code}"
    return answers


def keeps_accounts(problem: str) -> bool:
    """False where sacct said that there is nothing it could know."""
    return not any(text in problem for text in _NO_ACCOUNTS)


def _array_of(key: str) -> str:
    """The key of the array that a task belongs to; of another job, its own."""
    number, _, cluster = key.partition(";")
    return f"{number.partition('_')[0]};{cluster}"


def _add(rows: dict[str, list[SlurmRow]], section: Section, found: Iterable[tuple[str, SlurmRow]]) -> None:
    for key, row in found:
        rows.setdefault(key, []).append(row)


def _queue_row(row: list[str], cluster: str) -> tuple[str, SlurmRow]:
    value = dict(zip(_QUEUE, row, strict=False))
    task = whole(value["ArrayTaskID"])
    status = whole(value["exit_code"].partition(":")[0]) or 0
    # No process ends with a code and by a signal: that is an error of Slurm's own.
    error = status if status >> 8 and status & 0x7F else None
    return f"{value['JobID'] if task is None else value['ArrayJobID']};{cluster}", SlurmRow(
        task=task,
        state=value["State"],
        listed=True,
        partition=value["Partition"],
        reason=value["Reason"],
        exit_code=None if error else status >> 8 & 0xFF,
        signal=None if error else status & 0x7F or None,
        error=error,
        restarts=whole(value["RestartCnt"]) or 0,
        nodes=value["NodeList"],
        started=_time(value["StartTime"]),
        ended=_time(value["EndTime"]),
        elapsed=_seconds(value["TimeUsed"]),
    )


def _is_account(row: list[str]) -> bool:
    """Not the one row for the tasks of an array that have not begun, `12_[3-9]`: squeue has them one by one."""
    return len(row) == len(_ACCOUNTS) and "[" not in row[0]


def _account_row(row: list[str], cluster: str) -> tuple[str, SlurmRow]:
    value = dict(zip(_ACCOUNTS, row, strict=True))
    number, _, task = value["JobID"].partition("_")
    code, _, signal = value["ExitCode"].partition(":")
    error = CANNOT_WRITE if (code, signal) == ("0", str(CANNOT_WRITE & 0x7F)) else None
    return f"{number};{cluster}", SlurmRow(
        task=whole(task),
        state=value["State"],
        partition=value["Partition"],
        exit_code=None if error else _of_byte(code),
        signal=None if error else _of_byte(signal) or None,
        error=error,
        nodes="" if value["NodeList"] == "None assigned" else value["NodeList"],
        started=_time(value["Start"]),
        ended=_time(value["End"]),
        elapsed=_time(value["ElapsedRaw"]),
    )


def _of_byte(text: str) -> int | None:
    number = whole(text)
    return None if number is None else number & 0xFF


def _files(section: Section) -> JobFiles:
    texts: dict[str, list[str]] = {}
    for row in section.rows:
        texts.setdefault(row[0], []).append(FIELD.join(row[1:]))
    cancelled = " ".join(texts.pop("cancelled", ()))
    begun = whole("".join(texts.pop("begun", ())))
    texts.pop("fate", None)
    markers = (parse_marker("\n".join(lines)) for lines in texts.values())
    kept = sorted((marker for marker in markers if marker is not None), key=lambda m: (m.node, m.ended))
    return JobFiles(section.code == 0, cancelled, begun, _outcome(section), tuple(kept))


def _outcome(section: Section) -> AttemptOutcome | None:
    line = next((row[1] for row in section.rows if row[0] == "fate" and len(row) > 1), "")
    match = _OUTCOME.match(line)
    if match is None:
        return None
    reason = match[5].strip()
    code = match[4] or ("slurm" if reason == ENDED_BY_SLURM else "")
    return AttemptOutcome(int(match[1]), int(match[2]), match[3], reason, code)


def _metrics(section: Section) -> dict[str, MetricsEnds]:
    """What stat(1) says of all files comes first, then the end of each, under a line with its name."""
    times: dict[str, float] = {}
    ends: dict[str, list[str]] = {}
    file = ""
    for line in section.lines:
        if head := _HEAD.fullmatch(line):
            file = head[1]
        elif file:
            ends.setdefault(file, []).append(line)
        else:
            seconds, _, name = line.partition(" ")
            times[name] = float(whole(seconds) or 0)
    known = (row for row in section.rows if len(row) == 3 and row[1] in times)
    return {key: MetricsEnds(first, tuple(ends.get(name, ())), times[name]) for key, name, first in known}


def _time(text: str) -> float | None:
    return float(whole(text) or 0) or None


def _seconds(text: str) -> float | None:
    """squeue's `D-HH:MM:SS`, `H:MM:SS` or `M:SS`; None for what is not known (`INVALID`)."""
    try:
        return float(round((hours(text) or 0) * 3600))
    except ValueError:
        return None
