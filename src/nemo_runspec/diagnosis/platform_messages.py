"""What the words of platforms of pods mean for a job, as tables: of Kubernetes, of registries, of Lepton, of run:ai.

Reasons and messages are Kubernetes' (kubelet, scheduler, taint manager: their sources' event reasons), containerd's and
registries' as reports of users show them, Lepton's as its own client and its users name them. Patterns, never whole
texts: none of these words is promised by anybody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nemo_runspec.diagnosis.patterns import GPU_MEMORY
from nemo_runspec.diagnosis.pulls import UNREACHED


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a line of a platform's means.

    Args:
        kind: as in `Diagnosis`. `regex`: found in the line.
        what: `{on}` is ` on NODE` and `{at}` ` (NODE)` where one is known. `advice`: which of the platform's remedies.
        start: it is about starting: of a job whose command has run it is history.
        vague: it says that something failed, and not of what: any other line of its kind says more, older ones too.
    """

    kind: str
    regex: re.Pattern[str]
    what: str
    advice: str
    start: bool = False
    vague: bool = False


def _meaning(
    kind: str, regex: str, what: str, advice: str = "", *, start: bool = False, vague: bool = False
) -> Meaning:
    return Meaning(kind, re.compile(regex, re.IGNORECASE), what, advice or kind, start, vague)


_PULL = r"pull|image|registry|manifest|nvcr|docker"

MEANINGS: tuple[Meaning, ...] = (
    _meaning(
        "out of memory",
        rf"{GPU_MEMORY}|cuda[^:]{{0,20}}out of memory|gpu memory.*(?:exceed|exhaust)|out of gpu memory",
        "it ran out of GPU memory{on}",
        "gpu memory",
    ),
    _meaning(
        "storage",
        r"ephemeral[- ](?:local )?storage|no space left|disk quota|disk ?pressure|"
        r"read-only file system|input/output error",
        "its disk is full, or has failed{on}",
        "disk",
    ),
    _meaning(
        "out of memory",
        r"\boom|out[ _-]?of[ _-]?memory",
        "it used more memory than its pods may have{on}, and the kernel killed it",
    ),
    _meaning(
        "storage",
        r"persistentvolumeclaim.{0,60}(?:not found|not bound|being deleted)|unbound.{0,20}persistentvolumeclaim|"
        r"(?:volume|claim|pvc) \S+ (?:was |is )?(?:not found|does not exist|not exist)|"
        r"(?:mount|volume|path).{0,60}(?:permission denied|not permitted|access denied|forbidden)",
        "its storage cannot be mounted{on}",
        start=True,
    ),
    _meaning(
        "credentials",
        r"secret.{0,80}(?:not found|does not exist|missing)|couldn't find key .{0,60} in secret|"
        r"(?:not found|missing).{0,20}\bsecret",
        "a secret that it names is not there",
        start=True,
    ),
    _meaning(
        "capacity",
        r"failedscheduling|unschedulable|\b0/\d+ nodes? (?:are|is) available|\binsufficient\b|no ?capacity|"
        r"out of capacity|quota|not enough|no (?:free|idle|available) (?:node|gpu|resource)|"
        r"resources? (?:are |is )?unavailable|nonpreemptibleoverquota|overlimit",
        "there is no room for it",
        start=True,
    ),
    # Before the next two: a registry that was not reached has refused nothing, and `no such host` is no missing image.
    # `image` and `docker` are too little to go by here: a container runtime's own socket refuses connections too.
    _meaning(
        "node",
        rf"(?=.*(?:pull|registry|manifest|nvcr|/v2/))(?=.*(?:{UNREACHED})).*",
        "its node{at} does not reach the registry that its image names",
        start=True,
    ),
    _meaning(
        "image",
        rf"(?=.*(?:{_PULL}))(?=.*(?:unauthori[sz]ed|forbidden|\b40[13]\b|authenticat|authori[sz]ation|"
        r"access (?:is )?denied|no basic auth|access to the resource)).*",
        "the registry does not let the platform have the image",
        "image login",
        start=True,
    ),
    _meaning(
        "image",
        rf"(?=.*(?:{_PULL}))(?=.*(?:manifest.{{0,20}}unknown|\bnot found|\b404\b|no such|does not exist|"
        r"invalidimagename|invalid reference|name.{0,20}invalid|couldn't parse image)).*",
        "there is no such image in the registry",
        start=True,
    ),
    _meaning(
        "image",
        rf"(?=.*(?:{_PULL}))(?=.*(?:toomanyrequests|rate limit|\b429\b)).*",
        "the registry answers no more: too many pulls",
        "image login",
        start=True,
    ),
    _meaning(
        "image",
        r"errimage|imagepull|image ?pull\w* ?(?:fail|err|back)|fail\w* to pull|pull\w* (?:the )?image.{0,40}fail|"
        r"back-?off pulling|exec format error|no match for platform|"
        r"(?:executable file|no such file).{0,60}(?:not found|unknown)|unable to start container process",
        "its image cannot be pulled, or cannot be started",
        "image login",
        start=True,
        vague=True,
    ),
    _meaning(
        "eviction",
        r"\bevict(?:ed|ion|ing)\b|\bpreempt(?:ed|ing)\b|due to preemption|\breclaim(?:ed|ing)\b|\bdisruptiontarget\b|"
        r"spot.{0,20}interrupt",
        "the platform took its nodes away",
    ),
    _meaning(
        "node",
        r"mount point|failed ?mount|mountvolume|failed to mount|failedattachvolume|(?<!container)configerror",
        "a node is not fit for it{at}: its storage or its devices cannot be set up there",
        start=True,
    ),
    _meaning(
        "node",
        r"sandbox|networknotready|network plugin|unexpectedadmissionerror|allocate failed|"
        r"device plugin|nvidia-container|failedprestop",
        "a node is not fit for it{at}: its pod cannot be set up there",
        start=True,
    ),
    _meaning(
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


def meaning_of(text: str) -> Meaning | None:
    """What a line of a platform's means, None where no table knows it."""
    return next((meaning for meaning in MEANINGS if meaning.regex.search(text)), None)


def says_killed_for_memory(text: str) -> bool:
    """Whether a line says that the kernel killed something for want of memory; a full GPU kills nobody."""
    meaning = meaning_of(text)
    return meaning is not None and meaning.advice == "out of memory"


TELLING: tuple[str, ...] = ("out of memory", "eviction", "node", "storage", "credentials", "image", "capacity")
"""Which of several lines is believed, by its kind: a pod that was evicted is also killed, one that is killed also
waits to be started again."""

STARTED = re.compile(r"^Started\b|\bstarted container\b", re.IGNORECASE)
"""An event after which what kept a job from starting is history."""

CLASSES: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind, what)
    for pattern, kind, what in (
        (r"oom|memory", "out of memory", "it ran out of memory"),
        (r"evict|preempt", "eviction", "the platform took its nodes away"),
        (r"image", "image", "its image cannot be pulled, or cannot be started"),
        (r"storage|mount|disk", "storage", "its storage failed"),
        (r"program|user|application|code", "user code", "the program failed by itself"),
        (r"infra|system|node|hardware|gpu|network", "node", "the platform's own machines failed under it"),
    )
)
"""The platform's own class of a failure, such as Lepton's ERR_PROGRAM: (pattern, kind, what it means)."""

START: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"pre_launch_commands", "user code"),
        (r"no space left|quota|read-only|permission denied|not writable|input/output error", "storage"),
        (r"the image has no|command not found|is not installed", "image"),
        (
            r"\b40[13]\b|expired|accessdenied|access denied|forbidden|unauthori|credential|authenticat|\btoken\b|"
            r"could not read username|signature|access ?key",
            "credentials",
        ),
        (
            r"inputs?:|arrive whole|downloaded|package|unpack|digest|all nodes see it|\bmkdir\b|\bmv\b|\btar\b",
            "storage",
        ),
    )
)
"""What a job's own start says went wrong before its script ran (boot.sh, pod.sh): (pattern, kind)."""

OUTPUTS: tuple[tuple[re.Pattern[str], str], ...] = tuple(row for row in START if row[1] == "credentials")
"""The same for outputs that could not be uploaded; `storage` where none is found."""

LOG_KINDS: Mapping[str, str] = {
    "out of GPU memory": "out of memory",
    "out of memory": "out of memory",
    "shared memory": "out of memory",
    "storage": "storage",
    "credentials": "credentials",
    "bad GPU": "node",
    "GPU driver": "image",
    **dict.fromkeys(
        (
            "user code", "import error", "no GPU", "torchrun", "command not found", "missing file", "permission",
            "crash", "arguments",
        ),
        "user code",
    ),
}  # fmt: skip
"""Kinds of `diagnosis.patterns`, and which of a cloud's they are; of others a log does not say whose fault it was."""

DEADLINES: Mapping[str, tuple[str, str, str]] = {
    "queue": ("capacity", "it waited for nodes for longer than queue_timeout", "capacity"),
    "pull": ("image", "its image was pulled for longer than pull_timeout", "pull"),
    "start": ("", "it took longer than start_timeout to start", "start"),
}
"""A phase whose deadline has passed: (kind, what, advice)."""

_SHARED: Mapping[str, str] = {
    "gpu memory": "a smaller micro batch or sequence length, activation checkpointing, or more GPUs to shard over",
    "out of memory": "hold less in memory (smaller batches, fewer workers), or a larger node",
    "disk": "write to a mounted volume instead of the pod's own disk (HF_HOME and TMPDIR count too), or remove what is "
    "no longer needed",
    "user code": "the whole log says more: nemotron jobs logs",
    "contradiction": "see that what it made is whole, then take it as done; else nemotron jobs retry. What the "
    "platform saw: nemotron jobs events, nemotron jobs replicas",
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


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do on one platform. `name`: its own. `words`: by kind, or by an entry's `advice`."""

    name: str
    words: Mapping[str, str]

    def of(self, *keys: str) -> str:
        """The remedy of the first key that is known; '' for none."""
        tables = (self.words, _SHARED)
        return next((table[key] for key in keys for table in tables if key in table), "")
