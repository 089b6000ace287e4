"""Why a job on Slurm did not succeed: Slurm's state, its reason and its daemons' lines, with markers and logs.

What these mean stands in tables. The states and reasons are those of Slurm's pages "Job State Codes" and "Job Reason
Codes"; the lines of slurmstepd and srun were seen with 22.05, or stand in its source; Pyxis' and enroot's are from
reports of their users.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nemo_runspec.backends.slurm.cluster.job import NO_REASON, ClusterJob, SlurmReason, SlurmState, reason_of, state_of
from nemo_runspec.backends.slurm.cluster.query import CANNOT_WRITE
from nemo_runspec.diagnosis import engine
from nemo_runspec.diagnosis.causes import MEMORY, REGISTRY
from nemo_runspec.diagnosis.model import Case, Cause, Claim, Message, Platform
from nemo_runspec.diagnosis.phrases import NO_SPACE, QUOTA
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.lines import text_lines
from nemo_runspec.records.record import is_over
from nemo_runspec.runspec import KnownError
from nemo_runspec.script.markers import first_failure


def _cause(kind: str, what: str, remedy: str, *lines: str) -> Cause:
    return Cause(kind, what, remedy, tuple(map(re.compile, lines)))


_MEMORY = (
    'raise mem in the profile (mem = "0" is all of a node\'s), or hold less in memory; more nodes, where they share it'
)
_TIME = "raise time in the profile; or resume = true, with a recipe that writes checkpoints, goes on until it is done"
_AGAIN = "nemotron jobs retry starts it again; retries in the profile lets Slurm do so"
_NOT_LAUNCHED = "Slurm could not start it on its nodes"
_ELSEWHERE = "see what the profile asks for: partition, account, qos, constraint, gpus_per_node, nodes"

CAUSES: Mapping[str, Cause] = {
    "memory": MEMORY,
    "time limit": _cause("time limit", "it reached its time limit{after}", _TIME, r"DUE TO TIME LIMIT"),
    "deadline": _cause(
        "time limit",
        "it reached its deadline{after}",
        "give it a later deadline, or a shorter time",
        r"DUE TO DEADLINE",
    ),
    "node": _cause(
        "node failure", "a node failed under it{after}", _AGAIN, r"Node failure on (\S+)", r"DUE TO NODE FAILURE"
    ),
    "boot": _cause("node failure", "a node could not be started for it", _AGAIN),
    "reconfiguration": _cause("node failure", "a node could not be reconfigured for it", _AGAIN),
    "launch": _cause("launch", _NOT_LAUNCHED, _AGAIN),
    "held launch": _cause(
        "launch",
        _NOT_LAUNCHED,
        "look at the node with those who run the cluster; scontrol release lets a held job go on",
    ),
    "preemption": _cause(
        "preemption",
        "a job of higher priority took its nodes{after}",
        "resume = true in the profile goes on after a preemption; or another partition or qos",
        r"DUE TO PREEMPTION",
    ),
    "cancelled": _cause(
        "cancelled",
        "it was cancelled{after}",
        "nemotron jobs retry starts it again",
        r"\*\*\* .*CANCELLED AT \S+ \*\*\*",
    ),
    "account": _cause("account", "its account does not allow it", _ELSEWHERE),
    "QoS": _cause("QoS", "its QoS does not allow it", _ELSEWHERE),
    "constraint": _cause("constraint", "no node can do what it asks for", _ELSEWHERE),
    "partition": _cause("partition", "its partition does not allow it", _ELSEWHERE),
    "reservation": _cause("reservation", "its reservation is gone", "see additional_parameters: reservation"),
    "dependency": _cause(
        "dependency", "a job that it waited for ended otherwise", "see dependencies and dependency_type"
    ),
}
"""By the `cause` of a state or a reason of Slurm's (`cluster/job.py`)."""

CLOSING: tuple[str, ...] = ("memory", "time limit", "node", "preemption")
"""Those whose lines are believed where Slurm has forgotten the job, in this order."""

_IMAGE = "see container_image in the profile"

NO_CONTAINER = (
    'without a container: container_image = "" in the profile, or run.env.container_image=null with the command, '
    "which goes before a recipe's own image; else ask the site for Pyxis and enroot"
)
"""What to do where a cluster has no containers."""

IMAGE: tuple[Cause, ...] = (
    _cause(
        "image",
        "this cluster does not know container images: it has no Pyxis",
        NO_CONTAINER,
        r"unrecognized option '--container",
    ),
    _cause(
        "mounts",
        "a mount of the container cannot be made",
        "see mounts in the profile: the source must be there on every compute node",
        r"(?:failed to mount|couldn't mount|mount source|container-mounts).*",
    ),
    _cause(
        "image",
        "there is no such image file",
        f"{_IMAGE}: the path as compute nodes see it; nemotron kit slurm squash makes one",
        r"No such file or directory: \S+\.sqsh|\[ERROR\] No such file",
    ),
    *REGISTRY,
    _cause(
        "storage",
        "there is no room for the container's image",
        "remove images from enroot's cache on the cluster, or squash the image: nemotron kit slurm squash",
        rf"(?i:{NO_SPACE}|{QUOTA})",
    ),
    _cause(
        "image",
        "its container could not be started",
        f"{_IMAGE}, and mounts",
        r"\[ERROR\]|error: pyxis: (?!child|printing)",
    ),
)
"""By lines of Pyxis and of enroot, which quote registries too; the most telling first."""

LAUNCH: tuple[Cause, ...] = (
    _cause(
        "launch",
        "Slurm could not start its tasks: {0}",
        "a node was away, or its slurmd: nemotron jobs retry starts it again, and exclude in the profile keeps away "
        "from a node; health_check = true finds such a node and goes on without it",
        r"Task launch for \S+ failed (on node \S+: .+)",
    ),
    _cause("launch", "Slurm could not start its tasks: {0}", _ELSEWHERE, r"Unable to create step for job \d+: (.+)"),
    _cause("launch", "Slurm could not start its tasks: {0}", _AGAIN, r"task \S+ launch failed: (.+)"),
    _cause(
        "storage",
        "its log cannot be written on a compute node",
        "remote_job_dir must lie on a file system that all nodes share and may write to",
        r"(?:Could not|Unable to) open (?:std\w+|output|error) file",
    ),
    _cause(
        "launch", "a program it needs is not on the compute node: {0}", _ELSEWHERE, r"execve\(\): (.+): No such file"
    ),
    _cause(
        "launch",
        "srun does not take an option: {0}",
        "see srun_args in the profile",
        r"srun: (?:unrecognized|invalid) option (.+)",
    ),
    _cause(
        "launch", "its tasks were not started: {0}", _ELSEWHERE, r"srun: (?:error|fatal): (Unable to .+|Invalid .+)"
    ),
)
"""By lines of srun and slurmstepd, of a job whose script did not run on all its nodes."""

_DAEMONS = re.compile(r"^slurmstepd\S*: |^srun: |pyxis: |\benroot\b|\[ERROR\]")
"""Lines that a user's program does not write. Slurm 22.05 writes `slurmstepd-n1: ` where a host has several nodes."""

PLATFORM = Platform(
    "Slurm",
    {
        "killed for memory": _MEMORY,
        "image": f"{_IMAGE}: its name and tag",
        "image login": "put credentials into ~/.config/enroot/.credentials on the cluster (for nvcr.io: $oauthtoken "
        "and an API key)",
        "health check": 'exclude = "{node}" in the profile keeps away from it; tell those who run the cluster',
        "restarts": "raise max_restarts or time in the profile; nemotron jobs retry starts it again",
        "setup_lines": "see setup_lines in the profile",
        **dict.fromkeys(("user code", "unknown", "start"), "see the whole log, and --platform for Slurm's own"),
    },
    {"exit code": ""},
    {
        "out of memory": _MEMORY,
        "bad GPU": 'nemotron jobs retry, with exclude = "{node}" in the profile; and tell those who run the cluster',
        "GPU driver": "another image; or nodes of another kind: constraint or partition in the profile",
        "no GPU": "gpus_per_node (or gres) in the profile; and nproc_per_node, which must not be above it",
        "communication": "another rank or node ended or hangs: look for the first that failed; health_check = true in "
        'the profile finds bad nodes, env_vars = { NCCL_DEBUG = "INFO" } says more',
    },
    daemon_lines=_DAEMONS,
)


_ECHO = re.compile(
    r"\s*(?:nemotron: |\{ nemotron_code=|\{ set \+vx; |\++ |#|srun --output |"
    r"exitcode=\$\?$|set [-+]\w+$|(?:echo \")?job exited with code |"
    r"if \[ (?:\$exitcode|\"\$TORCHX_MAX_RETRIES\") |scontrol requeue |exit \$exitcode$|fi$)"
)
"""Lines that the batch shell writes of itself: its trace, its script's lines as it reads them, and our own."""

_CONTAINER = re.compile(r"pyxis: |\benroot\b|\[ERROR\]|--container-")


def diagnose(
    job: ClusterJob,
    tail: bytes,
    batch_tail: bytes = b"",
    key_source: str = "",
    known: Sequence[KnownError] = (),
) -> Diagnosis | None:
    """The verdict on a job that did not succeed; None for one that did, or goes on.

    Args:
        tail: the end of what its tasks wrote, in its last attempt.
        batch_tail: of what its batch script wrote.
        known: errors that its recipe knows.
        key_source: where `remote_job_dir` was set, such as `env.toml:7 [cluster]`; '' where that is not known.
    """
    if not is_over(job.state):
        return None
    return engine.diagnose(replace(case_of(job, tail, batch_tail, key_source), known=known))


def case_of(job: ClusterJob, tail: bytes, batch_tail: bytes, key_source: str) -> Case:
    """All that Slurm and its daemons say of a job, joined with its markers and logs."""
    from nemo_runspec.duration import span

    lines = (line.strip() for text in (batch_tail, tail) for line in text_lines(text.decode("utf-8", "replace")))
    daemons = [line for line in lines if PLATFORM.daemon_lines and PLATFORM.daemon_lines.search(line)]
    return Case(
        state=job.state,
        platform=PLATFORM,
        reason=job.reason or f"it ended as {job.slurm_state}",
        statement=_statement(job),
        markers=job.markers,
        tail=tail,
        script_tail=_without_echo(batch_tail),
        claims=tuple(_claims(job, daemons, key_source)),
        hints=tuple(_claim(cause, daemons) for cause in _causes_of(reason_of(job.slurm_reason))),
        daemons=daemons,
        exit_code=job.exit_code,
        signal=job.signal,
        ran_for=f" after {span(job.elapsed)}" if job.elapsed else "",
    )


def _claims(job: ClusterJob, daemons: Sequence[str], key_source: str) -> Iterator[Claim]:
    """What Slurm says, the most telling first."""
    if job.error == CANNOT_WRITE:
        yield Claim(_unwritable(job, key_source), Message(""), certain=True)
    yield from (_claim(cause, daemons) for cause in _causes_of(state_of(job.slurm_state)))
    if not job.slurm_state:  # Slurm has forgotten it
        yield from (_claim(CAUSES[name], daemons) for name in CLOSING if CAUSES[name].line_in(daemons))
    first = first_failure(job.markers)
    if first is None or first.phase == "start":  # on some node the job script never began: its container, or the step
        images = [line for line in daemons if _CONTAINER.search(line) and "[INFO]" not in line]
        found = [*((cause, cause.line_in(images)) for cause in IMAGE)]
        found += [(cause, cause.line_in(daemons)) for cause in LAUNCH]
        yield from (Claim(cause, Message(line)) for cause, line in found if line)


def _causes_of(word: SlurmState | SlurmReason) -> list[Cause]:
    return [CAUSES[word.cause]] if word.cause else []


def _claim(cause: Cause, daemons: Sequence[str]) -> Claim:
    """What Slurm itself says, with the line of a daemon that shows it."""
    line = cause.line_in(daemons)
    node = cause.name_in(line) if cause is CAUSES["node"] else ""
    if node:
        remedy = f'{cause.remedy}; exclude = "{node}" in the profile keeps away from that node'
        cause = replace(cause, what=f"node {node} failed under it{{after}}", remedy=remedy)
    return Claim(cause, Message(line, node), certain=True)


def _unwritable(job: ClusterJob, key_source: str) -> Cause:
    """The batch script's log could not be opened on its node: the directory is not there, or not to be written."""
    key = f"remote_job_dir ({key_source})" if key_source else "remote_job_dir"
    remedy = (
        f"set {key} to a directory on a file system that the login node and all compute nodes share, and that you may "
        "write to there; nemotron doctor PROFILE --job looks at it"
    )
    return Cause("storage", "{reason}", remedy)


def _statement(job: ClusterJob) -> str:
    reason = "" if job.slurm_reason in NO_REASON else f" ({job.slurm_reason})"
    return f"Slurm says {job.slurm_state}{reason}" if job.slurm_state else ""


def _without_echo(log: bytes) -> bytes:
    """A log without what the batch shell writes of itself. What its trace holds, it has read before."""
    lines = log.splitlines()
    traced = {line.lstrip(b"+ ") for line in lines if line.startswith(b"+")}
    kept = (line for line in lines if line not in traced and not _ECHO.match(line.decode("utf-8", "replace")))
    return b"\n".join(kept)
