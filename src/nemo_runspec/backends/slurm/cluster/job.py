"""One job as a cluster knows it: Slurm's job states in nemotron's own words, and why a job waits.

The names are those of Slurm's page "Job State Codes" (states, and flags, which squeue and sacct show in their place)
and of the manual pages of 22.05. What the table does not have stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nemo_runspec.records.progress import MetricsEnds
from nemo_runspec.records.record import is_over
from nemo_runspec.script.markers import NodeMarker

NO_REASON = ("", "None", "(null)")
"""How Slurm says that it gives none."""


@dataclass(frozen=True, slots=True)
class SlurmJobRef:
    """Which job is asked about.

    Args:
        id: Slurm's, as sbatch printed it: `12`, `12_3` for a task of an array, `12;cluster` in a federation.
        job_dir: where its exit markers are; '' for a job without any.
        nodes: how many of them are due.
        slurm: the name of the Slurm it was submitted to, '' where that is not known.
        name: its name there, '' where that is not known. Only a job of that name is ever stopped.
        tasks: of an array that is asked about as one job, how many it has; else 0.
    """

    id: str
    job_dir: str = ""
    nodes: int = 1
    slurm: str = ""
    name: str = ""
    tasks: int = 0


def task_id(array: str, task: int) -> str:
    """The id of a task of an array: `12_3`, in a federation `12_3;cluster`."""
    number, sign, cluster = array.partition(";")
    return f"{number}_{task}{sign}{cluster}"


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """What a cluster says of a job.

    Args:
        id: as asked.
        state: one of `records.record.STATES`.
        reason: why, in words.
        slurm_state, slurm_reason: Slurm's own words, '' where it does not know the job any more.
        nodes: Slurm's node list, such as `n[1-4]`.
        elapsed: seconds of this attempt.
        exit_code: the job's, None until it is over or where nobody knows.
        signal: that ended it.
        error: of Slurm's own (slurm_errno.h), where it could not start the job.
        restarts: how often it was started again before.
        task: its number in an array.
        estimated: when a pending job is expected to start.
        started, ended: seconds since 1970.
        position: its place among its partition's waiting jobs, from 1, where that was asked.
        by: who has stopped it, where that is known.
        metrics: the ends of the file it writes them to, of a job that runs, where that was asked.
        markers: what its nodes left.
        tasks: those of an array, by number.
    """

    id: str
    state: str
    reason: str = ""
    slurm_state: str = ""
    slurm_reason: str = ""
    nodes: str = ""
    elapsed: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: int | None = None
    restarts: int = 0
    task: int | None = None
    partition: str = ""
    estimated: float | None = None
    started: float | None = None
    ended: float | None = None
    position: int | None = None
    by: str = ""
    metrics: MetricsEnds | None = None
    markers: tuple[NodeMarker, ...] = ()
    tasks: tuple[ClusterJob, ...] = ()


@dataclass(frozen=True, slots=True)
class SlurmState:
    """What a state of Slurm's means.

    Args:
        state: one of `records.record.STATES`.
        reason: where the state alone does not say it.
        cause: why a job of this state has failed, a row of `diagnose.CAUSES`; '' where the state does not say it.
        held: the job has no place in the queue, and no time to begin.
    """

    state: str
    reason: str = ""
    cause: str = ""
    held: bool = False

    @property
    def over(self) -> bool:
        """True if Slurm is done with the job."""
        return is_over(self.state)


_RELEASED = "scontrol release lets it go on"
_NEVER = "it will never start; cancel it"

STATES: Mapping[str, SlurmState] = {
    "PENDING": SlurmState("queued"),
    "REQUEUED": SlurmState("queued", "requeued"),
    "REQUEUE_FED": SlurmState("queued", "requeued by the federation"),
    "REQUEUE_HOLD": SlurmState("queued", f"held after a requeue: {_RELEASED}", held=True),
    "SPECIAL_EXIT": SlurmState("queued", f"held in a special state after a requeue: {_RELEASED}", held=True),
    "RESV_DEL_HOLD": SlurmState("queued", "held, because its reservation was deleted", held=True),
    "EXPEDITING": SlurmState("queued", "requeued, and waits for nodes at high priority"),
    "CONFIGURING": SlurmState("starting", "its nodes are being made ready"),
    "POWER_UP_NODE": SlurmState("starting", "its nodes are being switched on"),
    "RUNNING": SlurmState("running"),
    "COMPLETING": SlurmState("running", "its processes are being ended"),
    "STAGE_OUT": SlurmState("running", "its files are being staged out"),
    "SIGNALING": SlurmState("running", "it is being sent a signal"),
    "RESIZING": SlurmState("running", "its size is being changed"),
    "SUSPENDED": SlurmState("running", "suspended"),
    "STOPPED": SlurmState("running", "stopped by SIGSTOP"),
    "UPDATE_DB": SlurmState("running", "its end is being accounted"),
    "COMPLETED": SlurmState("succeeded"),
    "CANCELLED": SlurmState("cancelled", "cancelled in Slurm", "cancelled"),
    "FAILED": SlurmState("failed"),
    "TIMEOUT": SlurmState("failed", "its time limit was reached", "time limit"),
    "DEADLINE": SlurmState("failed", "its deadline was reached", "deadline"),
    "OUT_OF_MEMORY": SlurmState("failed", "out of memory", "memory"),
    "NODE_FAIL": SlurmState("failed", "a node failed", "node"),
    "BOOT_FAIL": SlurmState("failed", "a node could not be started", "boot"),
    "RECONFIG_FAIL": SlurmState("unknown", "a node could not be reconfigured for it", "reconfiguration"),
    "LAUNCH_FAILED": SlurmState("unknown", "it could not be launched on its nodes", "launch"),
    "PREEMPTED": SlurmState("failed", "preempted by a job of higher priority", "preemption"),
    "REVOKED": SlurmState("unknown", "another cluster of the federation has it"),
}


@dataclass(frozen=True, slots=True)
class SlurmReason:
    """What a reason of Slurm's means.

    Args:
        pattern: the whole of it.
        words: why a pending job waits.
        cause: why a job has failed of which Slurm gives this as the reason, a row of `diagnose.CAUSES`; '' where it is
            none of a failure.
        held: as in `SlurmState`.
    """

    pattern: str
    words: str
    cause: str = ""
    held: bool = False


def _held(pattern: str, words: str, cause: str = "") -> SlurmReason:
    return SlurmReason(pattern, words, cause, held=True)


REASONS: tuple[SlurmReason, ...] = (
    SlurmReason(r"Resources", "waits for nodes"),
    SlurmReason(r"Priority", "waits behind jobs of higher priority"),
    SlurmReason(r"Dependency", "waits for another job"),
    SlurmReason(r"DependencyNeverSatisfied", f"waits for a job that ended otherwise: {_NEVER}", "dependency"),
    SlurmReason(r"BeginTime", "waits for its begin, as after a requeue"),
    _held(r"JobHeldUser", f"held: it has no place in the queue until {_RELEASED}"),
    _held(r"JobHeldAdmin", "held by an administrator: it has no place in the queue until one lets it go on"),
    _held(r"JobHoldMaxRequeue", f"held, as it was requeued too often: {_RELEASED}"),
    _held(r"launch failed requeued held", f"held, as its launch failed: {_RELEASED}", "held launch"),
    SlurmReason(r"JobLaunchFailure", "it could not be launched on its nodes", "held launch"),
    SlurmReason(r"Prolog", "its prolog runs", "held launch"),
    SlurmReason(r"Licenses", "waits for a license"),
    SlurmReason(r"Reservation", "waits for its reservation", "reservation"),
    SlurmReason(r"Reservation\w+", f"its reservation is gone: {_NEVER}", "reservation"),
    SlurmReason(r"Partition(Down|Inactive)", "its partition is down", "partition"),
    SlurmReason(
        r"PartitionTimeLimit",
        "its time limit is above the partition's: it will never start; lower time",
        "partition",
    ),
    SlurmReason(r"PartitionNodeLimit", "asks for more nodes than its partition has or allows", "partition"),
    SlurmReason(r"Partition\w+", "asks for what its partition does not allow", "partition"),
    SlurmReason(r"Nodes? ?Down", "a node it needs is down", "node"),
    SlurmReason(r"ReqNodeNotAvail.*", "nodes it needs are not available (down, drained or reserved)"),
    SlurmReason(r"BadConstraints", "no node can do what it asks for", "constraint"),
    SlurmReason(r"FrontEndDown", "its front end node is down"),
    SlurmReason(r"InvalidAccount", "its account is no longer valid", "account"),
    SlurmReason(r"InvalidQOS", "its QoS is no longer valid", "QoS"),
    SlurmReason(r"QOS\w*", "a limit of its QoS is reached", "QoS"),
    SlurmReason(r"Assoc\w*|AccountingPolicy", "a limit of its account or user is reached", "account"),
    SlurmReason(r"JobArrayTaskLimit", "as many tasks of its array run as may"),
    SlurmReason(r"Cleaning", "its last attempt is still being ended"),
    SlurmReason(r"TimeLimit", "its time limit was reached", "time limit"),
    SlurmReason(r"OutOfMemory", "out of memory", "memory"),
)
"""One row for each, of jobs that wait and of such that have ended; the first that fits."""


def state_of(state: str) -> SlurmState:
    """What one of Slurm's states means; `unknown`, and its name, where it is a new one.

    Args:
        state: as squeue (`-O State`) or sacct print it: `CANCELLED by 1000` too.
    """
    word = state.split()[0].rstrip("+") if state.split() else ""
    found = STATES.get(word)
    return found or SlurmState("unknown", f"Slurm calls its state '{state}'" if word else "Slurm names no state")


def reason_of(reason: str) -> SlurmReason:
    """What one of Slurm's reasons means: its own words where they are new ones, none for no reason."""
    if reason in NO_REASON:
        return SlurmReason("", "")
    word = reason.split(",")[0].strip("() ")
    return next((row for row in REASONS if re.fullmatch(row.pattern, word)), SlurmReason("", reason))
