"""What Slurm's states, its reasons and the lines of its daemons mean for a job that did not succeed, as tables.

The states and reasons are those of Slurm's pages "Job State Codes" and "Job Reason Codes"; the lines of slurmstepd and
srun were seen with 22.05, or stand in its source; Pyxis' and enroot's are from reports of their users.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from nemo_runspec.diagnosis.causes import MEMORY
from nemo_runspec.diagnosis.model import Cause, Platform


def _cause(kind: str, what: str, remedy: str, *lines: str) -> Cause:
    return Cause(kind, what, remedy, tuple(map(re.compile, lines)))


_MEMORY = (
    'raise mem in the profile (mem = "0" is all of a node\'s), or hold less in memory; more nodes, where they share it'
)
_TIME = "raise time in the profile; or resume = true, with a recipe that writes checkpoints, goes on until it is done"
_AGAIN = "nemotron jobs retry starts it again; retries in the profile lets Slurm do so"
_ELSEWHERE = "see what the profile asks for: partition, account, qos, constraint, gpus_per_node, nodes"

STATES: Mapping[str, Cause] = {
    "OUT_OF_MEMORY": MEMORY,
    "TIMEOUT": _cause("time limit", "it reached its time limit{after}", _TIME, r"DUE TO TIME LIMIT"),
    "DEADLINE": _cause(
        "time limit",
        "it reached its deadline{after}",
        "give it a later deadline, or a shorter time",
        r"DUE TO DEADLINE",
    ),
    "NODE_FAIL": _cause(
        "node failure", "a node failed under it{after}", _AGAIN, r"Node failure on (\S+)", r"DUE TO NODE FAILURE"
    ),
    "BOOT_FAIL": _cause("node failure", "a node could not be started for it", _AGAIN),
    "LAUNCH_FAILED": _cause("launch", "Slurm could not start it on its nodes", _AGAIN),
    "RECONFIG_FAIL": _cause("node failure", "a node could not be reconfigured for it", _AGAIN),
    "PREEMPTED": _cause(
        "preemption",
        "a job of higher priority took its nodes{after}",
        "resume = true in the profile goes on after a preemption; or another partition or qos",
        r"DUE TO PREEMPTION",
    ),
    "CANCELLED": _cause(
        "cancelled",
        "it was cancelled{after}",
        "nemotron jobs retry starts it again",
        r"\*\*\* .*CANCELLED AT \S+ \*\*\*",
    ),
}
"""By Slurm's state."""

_BY_REASON: Mapping[str, Cause] = {
    r"launch failed requeued held|JobLaunchFailure|Prolog": _cause(
        "launch",
        "Slurm could not start it on its nodes",
        "look at the node with those who run the cluster; scontrol release lets a held job go on",
    ),
    r"InvalidAccount|Assoc\w*": _cause("account", "its account does not allow it", _ELSEWHERE),
    r"InvalidQOS|QOS\w*": _cause("QoS", "its QoS does not allow it", _ELSEWHERE),
    r"BadConstraints": _cause("constraint", "no node can do what it asks for", _ELSEWHERE),
    r"Partition\w+": _cause("partition", "its partition does not allow it", _ELSEWHERE),
    r"Reservation\w*": _cause("reservation", "its reservation is gone", "see additional_parameters: reservation"),
    r"DependencyNeverSatisfied": _cause(
        "dependency", "a job that it waited for ended otherwise", "see dependencies and dependency_type"
    ),
    r"NodeDown": STATES["NODE_FAIL"],
    r"TimeLimit": STATES["TIMEOUT"],
    r"OutOfMemory": STATES["OUT_OF_MEMORY"],
}

REASONS = tuple((re.compile(pattern), cause) for pattern, cause in _BY_REASON.items())
"""By Slurm's reason, the whole of it, of a job whose state says nothing."""

CLOSING: tuple[str, ...] = ("OUT_OF_MEMORY", "TIMEOUT", "NODE_FAIL", "PREEMPTED")
"""The states whose lines are believed where Slurm has forgotten the job, in this order."""

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
        "image",
        "the registry does not let this user have the image",
        "put credentials into ~/.config/enroot/.credentials on the cluster (for nvcr.io: $oauthtoken and an API key)",
        r"(?:code|error): 40[13]\b|Unauthorized|Forbidden|[Aa]uthentication (?:failed|required)",
    ),
    _cause(
        "image",
        "there is no such image in the registry",
        f"{_IMAGE}: its name and tag",
        r"(?:code|error): 404\b|Not Found|manifest unknown",
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
    _cause(
        "storage",
        "there is no room for the container's image",
        "remove images from enroot's cache on the cluster, or squash the image: nemotron kit slurm squash",
        r"No space left|Disk quota exceeded",
    ),
    _cause(
        "image",
        "its container could not be started",
        f"{_IMAGE}, and mounts",
        r"\[ERROR\]|error: pyxis: (?!child|printing)",
    ),
)
"""By lines of Pyxis and of enroot, the most telling first."""

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
