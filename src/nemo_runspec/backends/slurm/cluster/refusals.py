"""Why Slurm refuses a job, in words, with what exists instead; and why its files cannot be written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nemo_runspec.backends.slurm.cluster.answer import Answer
from nemo_runspec.errors import UserError


@dataclass(frozen=True, slots=True)
class Refusal:
    """What one of sbatch's messages means.

    Args:
        pattern: of the message. `what`: in words. `key`: the profile's, which is to be changed; perhaps several.
        show: `accounts`, `qos`, `partitions` or '': what exists. `remedy`: where no key is to be changed.
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
    remedy = next((mend for word, mend in _MENDS.items() if word in message), None)
    return UserError(f"the job's files cannot be written: {message}", where=where, remedy=remedy)


_MENDS: Mapping[str, str] = {
    "No space left on device": "make room there, or set remote_job_dir to a directory with room",
    "Wrote only": "the disk is full: make room there, or set remote_job_dir to a directory with room",
    "Disk quota exceeded": "remove what you no longer need there (quota is used up), or set remote_job_dir elsewhere",
    "Permission denied": "set remote_job_dir to a directory you may write to",
    "Read-only file system": "set remote_job_dir to a directory you may write to",
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
