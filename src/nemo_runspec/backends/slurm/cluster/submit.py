"""Submits a job exactly once, however often it is called and whatever breaks meanwhile; or says why Slurm refuses it.

A job is known by its unique name. Each round trip looks for it, in its own directory, in squeue and in sacct, before it
calls sbatch, under a lock; an answer that was lost is looked for, not repeated. That sbatch was begun is noted before,
so that whoever comes after a client that was killed looks twice. Seen with Slurm 22.05: a controller
that hangs makes sbatch end after 10 s with `Socket timed out on send/recv operation`, and once it goes on, the job may
exist; a stopped one makes it end after 9 s with `Unable to contact slurm controller (connect failure)`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nemo_runspec.backends.slurm.cluster import BUSY, FIELD, Answer, Section, run_script, script_of
from nemo_runspec.console import Say
from nemo_runspec.diagnosis.phrases import DENIED, NO_SPACE, QUOTA, READ_ONLY, first_in
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.transport.base import Broken, Host, Unreachable


@dataclass(frozen=True, slots=True)
class Refusal:
    """What one of sbatch's messages means.

    Args:
        pattern: of the message.
        what: in words.
        key: the profile's, which is to be changed; perhaps several.
        show: `accounts`, `qos`, `partitions` or '': what exists.
        remedy: where no key is to be changed.
    """

    pattern: str
    what: str
    key: str
    show: str = ""
    remedy: str = ""


_REFUSALS = (
    Refusal(
        "MaxSubmit|GrpSubmit",
        "you, or your account, have as many jobs in the queue as you may", "",
        remedy="wait until one has ended, or cancel one (squeue --me lists them); an array counts once per task",
    ),
    Refusal("Invalid account", "you may not use the account, or not in this partition", "account", "accounts"),
    Refusal("Invalid qos", "the QoS does not exist, or you may not use it", "qos", "qos"),
    Refusal("[Ii]nvalid partition|No partition specified", "there is no such partition", "partition", "partitions"),
    Refusal("time limit is invalid", "the time limit is above the partition's", "time", "partitions"),
    Refusal("QOS policy|job submit limit", "a limit of the account or QoS forbids it", "time, nodes or qos", "qos"),
    Refusal(
        "not permitted to use this partition|Access/permission denied",
        "you may not use the partition", "partition", "partitions",
    ),
    Refusal(
        "Node count specification|More processors requested",
        "more nodes than the partition has or allows", "nodes", "partitions",
    ),
    Refusal("Memory specification", "no node has so much memory", "mem", "partitions"),
    Refusal(
        "node configuration is not available|partition configuration not available",
        "no node of the partition is like that", "gpus_per_node, gres, cpus_per_task or constraint", "partitions",
    ),
    Refusal("generic resource|gres", "there is no such resource", "gres or gpus_per_node", "partitions"),
    Refusal("Invalid feature", "no node has that feature", "constraint"),
    Refusal("reservation", "there is no such reservation, or not for you", "additional_parameters.reservation"),
    Refusal("dependency", "a job that it waits for does not exist", "dependencies"),
    Refusal("job array", "the array is not one that Slurm takes", "array"),
    Refusal("unrecognized option|Invalid .* specification", "an option is not one that this Slurm takes", "it"),
)  # fmt: skip
"""Patterns of sbatch's messages, as 22.05 words them; the first that fits."""


def refusal(message: str, answer: Answer) -> UserError:
    """The error for a message of sbatch's. As `explained`."""
    error = explained(message, answer)
    return UserError(f"Slurm refuses the job: {error.what}", remedy=error.remedy, key=error.key)


def explained(message: str, answer: Answer) -> UserError:
    """Why Slurm refuses a job, by its message; not that it does.

    Args:
        answer: the sections `partitions` (sinfo's `%R %l %D %G %a`, perhaps `%s`) and `accounts` (sacctmgr's account,
            partition, qos), where they were asked for.
    """
    message = re.sub(r"sbatch: (error: )?(Batch job submission failed: )?", "", message)
    known = next((entry for entry in _REFUSALS if re.search(entry.pattern, message)), None)
    if known is None:
        return UserError(message or "without a word")
    exists = _LISTS[known.show](answer) if known.show else ""
    return UserError(
        f"{known.what} ({message})",
        remedy=known.remedy or f"set {known.key} in the profile" + (f"; {exists}" if exists else ""),
        key=known.key,
    )


def unwritable(message: str, where: str) -> UserError:
    """A job's directory cannot be written. `message`: of the system's tools."""
    remedy = first_in(message, _MENDS) or None
    return UserError(f"the job's files cannot be written: {message}", where=where, remedy=remedy)


_MENDS: Mapping[str, str] = {
    NO_SPACE: "make room there, or set remote_job_dir to a directory with room",
    QUOTA: "remove what you no longer need there (quota is used up), or set remote_job_dir elsewhere",
    rf"{DENIED}|{READ_ONLY}": "set remote_job_dir to a directory you may write to",
}


def _partition(name: str, limit: str, nodes: str, gres: str, up: str, size: str = "") -> str:
    """`size`: of a job, such as `1-2` or `1-infinite` nodes; not everybody asks for it."""
    most = size.rpartition("-")[2]
    job = f"at most {most} for a job" if most.isdecimal() else ""
    about = (f"{nodes} nodes", job, f"up to {limit}", "" if gres == "(null)" else gres, "" if up == "up" else up)
    return f"{name} ({', '.join(filter(None, about))})"


def _list(kind: str, names: Iterable[str]) -> str:
    found = ", ".join(dict.fromkeys(names))
    return f"{kind}: {found}" if found else ""


_LISTS: Mapping[str, Callable[[Answer], str]] = {
    "partitions": lambda answer: _list(
        "partitions", (_partition(*row) for row in answer["partitions"].rows if len(row) in (5, 6))
    ),
    "accounts": lambda answer: _list("your accounts", answer.column("accounts", 0)),
    "qos": lambda answer: _list("your QoS", ",".join(answer.column("accounts", 2)).split(",")),
}


PAUSES = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 30.0, 30.0, 30.0)
"""Seconds between attempts."""

_TIMEOUT = 300.0
_SECONDS = 25
_GRACE = 3
"""Seconds between the two looks."""
_ID = re.compile(r"[0-9]+(;\S+)?", re.ASCII)
_AGAIN = "submit again: the job is looked for by its name first"


class NotSubmitted(UserError):
    """Slurm did not answer for long. Whether the job exists may not be known: the same call again finds out."""

    transient = True


@dataclass(frozen=True)
class SlurmSubmission:
    """What is submitted. To be found it needs a name and a folder.

    Args:
        name: its name in Slurm, unique.
        folder: its directory.
        script: the batch script in it.
        command: the process that submits it, as `render.submit_words` and the script.
        hidden: variables that sbatch must not see: it hands its environment to the job, and Slurm keeps it.
    """

    name: str
    folder: str
    script: str = ""
    command: Sequence[str] = ()
    hidden: Iterable[str] = ()


def submission_of(plan: Plan) -> SlurmSubmission:
    """What is submitted of a plan."""
    from nemo_runspec.backends.slurm.executor import job_name, sbatch_script
    from nemo_runspec.backends.slurm.render import submit_words

    hidden = [secret.name for secret in plan.secrets]
    script = sbatch_script(plan)
    return SlurmSubmission(job_name(plan), plan.job_dir, script, (*submit_words(plan), script), hidden)


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job's id as sbatch printed it. `adopted`: it had been submitted before."""

    id: str
    adopted: bool = False


def submit(
    host: Host,
    job: SlurmSubmission,
    say: Say = lambda _: None,
    *,
    pauses: Sequence[float] = PAUSES,
    sleep: Callable[[float], None] = time.sleep,
) -> Submitted:
    """The job, submitted now or before. One round trip where nothing breaks.

    Args:
        say: takes a line for every attempt that came to nothing, and for what sbatch has to say beside its answer.

    Raises:
        UserError: Slurm refuses the job; in words, with what exists instead. Or its directory cannot be written.
        NotSubmitted: Slurm did not answer. Unreachable: the host did not.
    """
    doubtful = False
    for pause in (*pauses, None):
        try:
            found, problem = _attempt(host, job, say, doubtful=doubtful)
        except Unreachable as error:
            found, problem = None, error
        if found is not None:
            return found
        if pause is None:
            raise problem
        doubtful = doubtful or not isinstance(problem, Unreachable) or isinstance(problem, Broken)
        say(f"{problem.what}; looking again in {pause:g} s")
        sleep(pause)
    raise AssertionError("the last pause is None")


def find(host: Host, job: SlurmSubmission) -> Submitted | None:
    """The job as it was submitted before, None where it was not; nothing is submitted. One round trip.

    It waits for a submission that is going on, and looks as `submit` does. The job's directory may be missing.

    Raises:
        NotSubmitted: Slurm did not answer: it is not known. Unreachable: the host did not.
    """
    answer = run_script(host, _script(job, only_find=True), timeout=_TIMEOUT)
    if id := _id(answer["found"]):
        return Submitted(id, adopted=True)
    if "absent" in answer:
        return None
    raise _no_answer(host, answer)


def _attempt(host: Host, job: SlurmSubmission, say: Say, *, doubtful: bool) -> tuple[Submitted | None, UserError]:
    """The job, or why it is not known to be submitted."""
    answer = run_script(host, _script(job, doubtful=doubtful), timeout=_TIMEOUT)
    made = answer["made"]
    if made.code == 0:
        for note in made.notes:
            say(f"sbatch on {host.name}: {note}")
    ids = [_id(section) for section in (answer["found"], made) if section.code == 0]
    if id := next(filter(None, ids), ""):
        return Submitted(id, adopted=_id(made) != id), NotSubmitted("")
    if "made" in answer and not made.is_busy:
        raise refusal(made.reason, answer) if made.code else _nameless(host, made)
    if "unwritable" in answer:
        raise unwritable(answer["unwritable"].reason, f"{host.name}:{job.folder}")
    return None, _no_answer(host, answer)


def _no_answer(host: Host, answer: Answer) -> NotSubmitted:
    name = next((name for name in ("made", "busy") if name in answer), "")
    reason = answer[name].reason if name else Section("", 1, lines=[answer.said]).reason
    return NotSubmitted(f"Slurm on {host.name} does not answer: {reason or 'no word'}", remedy=_AGAIN)


def _nameless(host: Host, section: Section) -> NotSubmitted:
    """As of a site's wrapper that refuses a job, or hides its id, and ends with 0."""
    return NotSubmitted(
        f"sbatch on {host.name} ended with 0, but named no job, and Slurm lists none by this name: "
        f"{section.reason or 'no word'}",
        remedy=_AGAIN,
    )


def _id(section: Section) -> str:
    """The first line that is an id; '' where there is none."""
    return next((line for line in section.lines if _ID.fullmatch(line)), "")


def _script(job: SlurmSubmission, *, doubtful: bool = False, only_find: bool = False) -> str:
    return script_of(
        "cluster/submit.sh",
        name=job.name,
        job=job.folder,
        script=job.script,
        hidden=" ".join(job.hidden),
        field=FIELD,
        seconds=str(_SECONDS),
        grace=str(_GRACE),
        busy=BUSY,
        doubtful="yes" if doubtful else "",
        only_find="yes" if only_find else "",
        command=job.command,
    )
