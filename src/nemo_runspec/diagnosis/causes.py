"""Ways in which jobs fail, as tables: what lines of Kubernetes, of registries and of clouds mean, and what to do.

Reasons and messages are Kubernetes' (kubelet, scheduler, taint manager: their sources' event reasons), containerd's and
registries' as reports of users show them, Lepton's as its own client and its users name them. Patterns, never whole
texts: none of these words is promised by anybody.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping

from nemo_runspec.diagnosis.model import Cause, Platform
from nemo_runspec.diagnosis.patterns import GPU_MEMORY
from nemo_runspec.diagnosis.phrases import (
    ABSENT,
    BUSY,
    DENIED,
    MOUNT_FAILED,
    NO_ROOM,
    NO_SPACE,
    PULL_FAILED,
    QUOTA,
    READ_ONLY,
    REFUSED,
    UNREACHED,
)


def _cause(kind: str, regex: str, what: str, remedy: str = "", *, starting: bool = False, vague: bool = False) -> Cause:
    return Cause(kind, what, remedy, (re.compile(regex, re.IGNORECASE),), starting, vague)


_PULL = r"pull|image|registry|manifest|nvcr|docker|/v2/"


def _registry(words: str, what: str, remedy: str = "") -> Cause:
    """What a registry says of an image, in a line that is about one."""
    return _cause("image", rf"(?=.*(?:{_PULL}))(?=.*(?:{words})).*", what, remedy, starting=True)


REGISTRY: tuple[Cause, ...] = (
    _registry(REFUSED, "the registry does not let this job have the image", "image login"),
    _registry(ABSENT, "there is no such image in the registry"),
    _registry(BUSY, "the registry answers no more: too many pulls", "image login"),
)
"""What a registry that was reached says, on every platform."""

MESSAGES: tuple[Cause, ...] = (
    _cause(
        "out of memory",
        rf"{GPU_MEMORY}|cuda[^:]{{0,20}}out of memory|gpu memory.*(?:exceed|exhaust)|out of gpu memory",
        "it ran out of GPU memory{on}",
        "gpu memory",
    ),
    _cause(
        "storage",
        rf"ephemeral[- ](?:local )?storage|{NO_SPACE}|{QUOTA}|disk ?pressure|{READ_ONLY}|input/output error",
        "its disk is full, or has failed{on}",
        "disk",
    ),
    _cause(
        "out of memory",
        r"\boom|out[ _-]?of[ _-]?memory|exceeded memory limit",
        "it used more memory{on} than it may have, and the kernel killed it",
        "killed for memory",
    ),
    _cause(
        "storage",
        r"persistentvolumeclaim.{0,60}(?:not found|not bound|being deleted)|unbound.{0,20}persistentvolumeclaim|"
        r"(?:volume|claim|pvc) \S+ (?:was |is )?(?:not found|does not exist|not exist)|"
        r"(?:mount|volume|path).{0,60}(?:permission denied|not permitted|access denied|forbidden)",
        "its storage cannot be mounted{on}",
        starting=True,
    ),
    _cause(
        "credentials",
        r"secret.{0,80}(?:not found|does not exist|missing)|couldn't find key .{0,60} in secret|"
        r"(?:not found|missing).{0,20}\bsecret",
        "a secret that it names is not there",
        starting=True,
    ),
    _cause(
        "capacity",
        NO_ROOM,
        "there is no room for it",
        starting=True,
    ),
    # Before the next two: a registry that was not reached has refused nothing, and `no such host` is no missing image.
    # `image` and `docker` are too little to go by here: a container runtime's own socket refuses connections too.
    _cause(
        "node",
        rf"(?=.*(?:pull|registry|manifest|nvcr|/v2/))(?=.*(?:{UNREACHED})).*",
        "its node{at} does not reach the registry that its image names",
        starting=True,
    ),
    *REGISTRY,
    _cause(
        "image",
        rf"{PULL_FAILED}|imagepull|exec format error|no match for platform|"
        r"(?:executable file|no such file).{0,60}(?:not found|unknown)|unable to start container process",
        "its image cannot be pulled, or cannot be started",
        "image login",
        starting=True,
        vague=True,
    ),
    _cause(
        "eviction",
        r"\bevict(?:ed|ion|ing)\b|\bpreempt(?:ed|ing)\b|due to preemption|\breclaim(?:ed|ing)\b|\bdisruptiontarget\b|"
        r"spot.{0,20}interrupt",
        "the platform took its nodes away",
    ),
    _cause(
        "node",
        rf"{MOUNT_FAILED}|(?<!container)configerror",
        "a node is not fit for it{at}: its storage or its devices cannot be set up there",
        starting=True,
    ),
    _cause(
        "node",
        r"sandbox|networknotready|network plugin|unexpectedadmissionerror|allocate failed|"
        r"device plugin|nvidia-container|failedprestop",
        "a node is not fit for it{at}: its pod cannot be set up there",
        starting=True,
    ),
    _cause(
        "node",
        r"node ?(?:is |was )?(?:not ?ready|unhealthy|lost|unreachable|gone|deleted|shut ?down|terminat\w+|fail\w*)|"
        r"unhealthy node|bad node|nodelost|taintmanager|\bxid\b|fallen off the bus|\becc\b|nvlink.{0,20}(?:err|fail)|"
        r"gpu.{0,40}(?:is lost|lost|unhealthy|fail|error|hang)|(?:infiniband|hca|link).{0,20}(?:down|fail)|"
        r"hardware (?:error|fail)|containerstatusunknown",
        "a node failed under it{at}",
    ),
)
"""The first that is found in a line says what the line means: a message of the scheduler says that it took nobody's
nodes, so `capacity` is looked for before `eviction`."""


MEMORY, GPU = (next(each for each in MESSAGES if each.remedy == key) for key in ("killed for memory", "gpu memory"))


def cause_of(text: str) -> Cause | None:
    """What a message of a platform means, None where no table knows it."""
    return next((cause for cause in MESSAGES if cause.line_in((text,))), None)


def says_killed_for_memory(text: str) -> bool:
    """True if a line says that the kernel killed something for want of memory; a full GPU kills nobody."""
    return cause_of(text) is MEMORY


PRECEDENCE: tuple[str, ...] = ("out of memory", "eviction", "node", "storage", "credentials", "image", "capacity")
"""Which of several lines is believed, by its kind: a pod that was evicted is also killed, one that is killed also
waits to be started again."""

STARTED = re.compile(r"^Started\b|\bstarted container\b", re.IGNORECASE)
"""An event after which what kept a job from starting is history."""

CLASSES: tuple[Cause, ...] = (
    _cause("out of memory", r"oom|memory", "it ran out of memory"),
    _cause("eviction", r"evict|preempt", "the platform took its nodes away"),
    _cause("image", r"image", "its image cannot be pulled, or cannot be started"),
    _cause("storage", r"storage|mount|disk", "its storage failed"),
    _cause("user code", r"program|user|application|code", "the program failed by itself"),
    _cause("node", r"infra|system|node|hardware|gpu|network", "the platform's own machines failed under it"),
)
"""The platform's own class of a failure, such as Lepton's ERR_PROGRAM."""

REASONS: Mapping[str, Cause] = {
    "stall": Cause("stall", "it made {0}{stack}"),
    "health": Cause("health check", "node {node} is bad: {0}"),
    "restarts": Cause("time limit", "it is not done: {0}", "restarts", logged=True),
    "setup_lines": Cause("setup", "{ended}", "setup_lines", logged=True),
    "outputs": Cause("storage", "the command succeeded, but its outputs could not be uploaded", "outputs"),
    "pre_launch": Cause("user code", "it did not start{on}: {0}", "user code start", logged=True),
    "image": Cause("image", "it did not start{on}: {0}", "image start"),
    "files": Cause("storage", "it did not start{on}: {0}", "storage start"),
    "inputs": Cause("storage", "it did not start{on}: {0}", "inputs"),
    "artifact": Cause("artifact", "{0}"),
    "registration": Cause("registration", "{0}"),
    "ray": Cause("Ray", "{0}"),
    "ray_node": Cause("Ray node", "{0}"),
    "": Cause("", "it did not start{on}: {0}", "start"),
}
"""By the code with which the job's own scripts say why they have failed (`script.markers.REASONS`)."""

DECISIVE = frozenset(
    {"stall", "health", "restarts", "setup_lines", "outputs", "artifact", "registration", "ray", "ray_node"}
)
"""Those after which nothing else is asked: by them our scripts ended the job themselves."""

SYSTEM: tuple[Cause, ...] = (
    _cause(
        "storage",
        rf"{NO_SPACE}|{DENIED}|quota|read-only|not writable|input/output error",
        "{0}",
        "storage start",
    ),
    _cause("image", r"command not found|is not installed", "{0}", "image start"),
    _cause(
        "credentials",
        r"\b40[13]\b|expired|accessdenied|access denied|forbidden|unauthori|credential|authenticat|\btoken\b|"
        r"could not read username|signature|access ?key",
        "{0}",
        "credentials start",
    ),
)
"""What programs and servers say, quoted in such a reason, and what it says of it."""

POD_KINDS: Mapping[str, str] = {
    "out of GPU memory": "out of memory",
    "shared memory": "out of memory",
    "bad GPU": "node",
    "GPU driver": "image",
    **{kind: kind for kind in ("out of memory", "storage", "credentials")},
    **dict.fromkeys(
        (
            "user code", "import error", "no GPU", "torchrun", "command not found", "missing file", "permission",
            "crash", "arguments", "setup", "exit code", "Ray",
        ),
        "user code",
    ),
    **dict.fromkeys(("killed", "communication", "network", "interrupted", "port in use", "lost"), ""),
}  # fmt: skip
"""`Platform.kinds` of clouds, which know fewer; '' where a log does not say whose fault it was."""

KILLERS: Mapping[int, str] = {
    signal.SIGKILL: "something other than this job killed it: the node's out-of-memory killer, an administrator, or "
    "the platform",
    signal.SIGTERM: "it was told to stop from outside",
}
"""By the signal that ended a command from nobody knows where."""

REMEDIES: Mapping[str, str] = {
    "gpu memory": "a smaller micro batch or sequence length, activation checkpointing, or more GPUs to shard over",
    "killed for memory": "hold less in memory (smaller batches, fewer workers), or a larger node",
    "disk": "write to a mounted volume instead of the pod's own disk (HF_HOME and TMPDIR count too), or remove what is "
    "no longer needed",
    "user code": "the whole log says more: nemotron jobs logs",
    "artifact": "look at all of it with nemotron artifacts check, and mend what made it; to do without: "
    "run.artifacts.check=false",
    "registration": "its work is done, and nothing need run again: once the store can be written, nemotron artifacts "
    "register",
    "unknown": "see nemotron jobs logs, events and replicas",
    "setup": "see startup_commands and workdir in the profile",
    "Ray": "one Ray and one Python on all nodes and for the command (ray_venv, startup_commands that set PATH); Ray's "
    "own logs are in logs/ray of the job's directory",
    "Ray node": "that node's logs are in logs/ray of the job's directory; a longer ray_start_timeout where it only was "
    "slow, ray_tolerate_lost where the command can do without it",
    "stall": "the stacks of its processes are in the log; a job that is only slow needs a longer stall_timeout",
    "contradiction": "see that what it made is whole, then take it as done; else nemotron jobs retry. What the "
    "platform saw: nemotron jobs events, nemotron jobs replicas",
    "capacity": "ask for less or elsewhere, or wait longer: queue_timeout",
    "pull": "a smaller image, or a longer pull_timeout; an image that cannot be pulled at all can look like this too",
    "start": "see nemotron jobs replicas and nemotron jobs events; a longer start_timeout where it only was slow",
    "outputs": "see output_url, and that ACCESS_KEY and SECRET_KEY may write there; what was written to a volume is "
    "still there",
    "inputs": "see inputs in the profile, and that ACCESS_KEY and SECRET_KEY may read there: nemotron doctor PROFILE",
    "user code start": "see pre_launch_commands in the profile, and the log",
    "credentials start": "the address of the job's files expired or was refused: nemotron jobs retry makes a new one",
    "storage start": "see that the directory for jobs lies on a mounted volume with room and may be written to",
    "image start": "take an image with bash, tar, gzip and python3 or curl",
}


def remedy_of(platform: Platform, *keys: str) -> str:
    """The remedy of the first key that is known; '' for none."""
    tables = (platform.remedies, REMEDIES)
    return next((table[key] for key in keys for table in tables if key in table), "")


def remedy_for(platform: Platform, cause: Cause) -> str:
    """What to do about a cause: its own words where no table has more."""
    return remedy_of(platform, cause.remedy or cause.kind) or cause.remedy
