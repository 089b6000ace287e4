"""Lines that say why a program failed, as Python, PyTorch, NCCL, the shell and the kernel write them; a table.

The texts are those of CPython 3.8 to 3.13, PyTorch 2, glibc's `strerror`, bash and `huggingface_hub`, as they stand in
their sources and in reports of users. An entry says what a match means, and how to mend it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from nemo_runspec.diagnosis.phrases import NO_SPACE, QUOTA


class Level(IntEnum):
    """How much a line says about why a job failed: the higher wins, whatever else is in the log."""

    HINT = 1
    """Programs write it and go on: it counts only where there is nothing else."""
    ECHO = 2
    """What the other ranks say because one has failed."""
    SAID = 3
    """A program's own error line, with which it ended."""
    CRASH = 4
    """A process ended without a word of its own."""
    CAUSE = 5


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a line means.

    Args:
        kind: as in `Diagnosis.kind`.
        regex: found in the line.
        what: `{who}` is the rank; `{0}`, `{1}` … are the groups.
        level: of a line for itself: many a program warns in the same words and goes on. At the end of a traceback it is
            a cause, unless it is an echo.
    """

    kind: str
    regex: re.Pattern[str]
    what: str
    remedy: str
    level: Level = Level.HINT


def _entry(kind: str, regex: str, what: str, remedy: str, level: Level = Level.HINT) -> Pattern:
    return Pattern(kind, re.compile(regex), what, remedy, level)


_MEMORY = "ask for more memory, or hold less in it: fewer workers, smaller buffers, no second copy of the data"
_GPU_MEMORY = "a smaller micro batch or sequence length, activation checkpointing, or more GPUs to shard over"
_NODE = "keep away from this node, and tell those who run the cluster"
_FILES = (
    "open fewer at a time; the limit is the highest that its node allows (ulimit -Hn), which those who run it can raise"
)
_SHM = "fewer DataLoader workers, or a larger /dev/shm for the container"
_SHELL = r"^(?:\S*(?:bash|sh|\.sh): )(?:line \d+: )?"
_PATH = "see the path as the job sees it: inside a container only what mounts names is there"
_INPUT = "input() and breakpoint() read the terminal of an attached local run of one process; other jobs read nothing"
_RIGHTS = "see whose it is, whether it is mounted read-only, and that a program is executable"
_RAYS = "one Ray and one Python for both: ray_venv says which is the cluster's, and the log names its version"
_PARTNER = (
    "another rank or node ended or hangs: look for the first that failed; health_check finds bad nodes, "
    'env_vars = { NCCL_DEBUG = "INFO" } says more'
)

GPU_MEMORY = (
    r"CUDA out of memory|OutOfMemoryError: CUDA|CUDA error: out of memory|HIP out of memory"
    r"|CUBLAS_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED: Out of memory"
)
"""How programs, and platforms that quote them, say that a GPU's memory was not enough: no process was killed."""

PATTERNS: tuple[Pattern, ...] = (
    _entry(
        "out of GPU memory",
        GPU_MEMORY,
        "{who} ran out of GPU memory",
        _GPU_MEMORY,
        Level.CRASH,
    ),
    _entry(
        "shared memory",
        r"signal: Bus error|insufficient shared memory \(shm\)|unable to (?:open|mmap|resize) .*shared memory"
        r"|unable to write to file </torch_"
        rf"|(?i:{NO_SPACE}) on device: '/dev/shm",
        "{who} ran out of shared memory (/dev/shm)",
        _SHM,
        Level.CRASH,
    ),
    _entry(
        "out of memory",
        r"oom[-_]kill|Out of memory: Killed process|DataLoader worker \(pid.*\) is killed by signal: Killed"
        r"|DefaultCPUAllocator: (?:can't allocate|not enough) memory|^MemoryError|^numpy\..*ArrayMemoryError"
        r"|Errno 12\] Cannot allocate memory|std::bad_alloc",
        "{who} ran out of memory",
        _MEMORY,
        Level.CRASH,
    ),
    _entry(
        "killed",
        r"(?:line \d+: +\d+ +|^)Killed\b",
        "{who} was killed (SIGKILL), often for want of memory",
        _MEMORY,
        Level.CRASH,
    ),
    _entry(
        "storage",
        rf"(?i:{QUOTA})",
        "a disk quota is used up",
        "remove what is no longer needed, or write to another file system",
    ),
    _entry(
        "user code",
        r"\[Errno 24\]|Too many open files",
        "{who} had as many files open as one process may",
        _FILES,
    ),
    _entry(
        "storage",
        rf"(?i:{NO_SPACE})",
        "a disk is full",
        "remove what is no longer needed, or write to another file system (HF_HOME and TMPDIR count too)",
    ),
    _entry(
        "storage",
        r"Stale file handle|\[Errno 116\]|Transport endpoint is not connected|\[Errno 5\] Input/output error"
        r"|Read-only file system",
        "a file system failed",
        "start the job again; if it comes back, tell those who run the cluster",
    ),
    _entry(
        "Ray",
        r"^RuntimeError: Version mismatch: The cluster was started with",
        "{who} has another Ray or Python than its cluster",
        _RAYS,
    ),
    _entry(
        "Ray",
        r"^ConnectionError: Could not read '\w+' from GCS",
        "{who} cannot talk with its cluster: it has another Ray or Python than that, most likely",
        _RAYS,
        Level.CAUSE,
    ),
    _entry(
        "import error",
        r"ModuleNotFoundError: No module named '([^']+)'",
        "{who} cannot import {0}",
        "install it where the job runs (startup_commands, or another image); if it is your own, see that it travels",
    ),
    _entry(
        "import error",
        r"python[\d.]*: No module named (\S+)",
        "there is no module {0} where the job runs",
        "install it there (startup_commands, or another image); if it is your own, see that it travels",
        Level.CRASH,
    ),
    _entry(
        "import error",
        r"ImportError: cannot import name '([^']+)' from '([^']+)'",
        "{who} cannot import {0} from {1}",
        "another version of it is installed where the job runs than the code wants",
    ),
    _entry(
        "import error",
        r"(?:ImportError|OSError): (\S*\.so[\w.]*): (?:cannot open|undefined symbol|version `)|ImportError: .*GLIBC",
        "{who} cannot load a library",
        "packages that were built for each other: another image, or install them anew in this one",
    ),
    _entry(
        "import error", r"^ImportError\b", "{who} cannot import a module", "see what is installed where the job runs"
    ),
    _entry(
        "bad GPU",
        r"uncorrectable ECC error|GPU is lost|fallen off the bus|CUDA error: (?:unspecified launch failure|hardware)"
        r"|unable to determine the device handle|NVML: (?:Driver|GPU)",
        "a GPU of this node is broken",
        _NODE,
        Level.CRASH,
    ),
    _entry(
        "GPU driver",
        r"CUDA driver version is insufficient|driver on your system is too old|no kernel image is available"
        r"|NVML: Driver/library version mismatch|forward compatibility was attempted",
        "the software does not fit this node's GPUs or their driver",
        "another image, or another build of torch; or nodes of another kind",
    ),
    _entry(
        "no GPU",
        r"No CUDA GPUs are available|Torch not compiled with CUDA enabled|Found no NVIDIA driver"
        r"|CUDA error: invalid device ordinal|no CUDA-capable device is detected",
        "{who} sees no GPU, or not as many as it wants",
        "see gpus_per_node and nproc_per_node of the profile, and whether torch was built with CUDA",
    ),
    _entry(
        "user code",
        r"device-side assert triggered|an illegal memory access was encountered|Assertion `.*` failed",
        "{who} failed in a GPU kernel, often for an index out of range",
        'env_vars = { CUDA_LAUNCH_BLOCKING = "1" } shows the right line',
    ),
    _entry(
        "credentials",
        r"GatedRepoError|[Cc]annot access gated repo|access a gated repo",
        "{who} may not read a gated repository of Hugging Face",
        "ask for access on its page, and name a token that has it in secrets: HF_TOKEN",
    ),
    _entry(
        "credentials",
        r"wandb.*(?:\b401\b|\b403\b|api[_ ]key|API key|permission denied|not logged in)|UsageError: .*api_key",
        "Weights & Biases does not know this user",
        'name WANDB_API_KEY in secrets, or env_vars = { WANDB_MODE = "offline" }',
    ),
    _entry(
        "credentials",
        r"\b(?:401|403) Client Error|\b401 Unauthorized|\b403 Forbidden|Invalid user token|LocalTokenNotFoundError"
        r"|Invalid username or password|RepositoryNotFoundError|Token is required",
        "{who} was refused by a server that wants credentials",
        "name the token in secrets (HF_TOKEN for Hugging Face), and see that it is valid and may read this",
    ),
    _entry(
        "network",
        r"\b429 Client Error|Too Many Requests",
        "a server was asked too often",
        "fetch it once, before the job, onto the shared file system",
    ),
    _entry(
        "network",
        r"Temporary failure in name resolution|Name or service not known|NameResolutionError|Network is unreachable"
        r"|LocalEntryNotFoundError|OfflineModeIsEnabled|Could not resolve host|No route to host",
        "{who} cannot reach a server; compute nodes often have no way to the internet",
        "fetch it before the job, onto the shared file system (HF_HOME), or set a proxy in env_vars",
    ),
    _entry(
        "port in use",
        r"Address already in use|EADDRINUSE|\[Errno 98\]",
        "{who} wants a port that another process has",
        "start it again, or do not fix the port: jobs on one node need different ones",
    ),
    _entry(
        "interrupted",
        r"^KeyboardInterrupt|SignalException: Process \d+ got signal",
        "{who} was interrupted",
        "see who ended the job",
        Level.ECHO,
    ),
    _entry(
        "communication",
        r"Watchdog caught collective operation timeout: \w+\((?:.*?OpType=(\w+))?",
        "{who} waited too long for the other ranks in a collective operation {0}",
        _PARTNER,
        Level.ECHO,
    ),
    _entry(
        "communication",
        r"Timed out after \d+ seconds waiting for clients|client socket has (?:timed out|failed)"
        r"|RendezvousTimeoutError|RendezvousConnectionError|DistNetworkError|wait timeout after \d+ms",
        "{who} could not meet the other ranks",
        _PARTNER,
        Level.ECHO,
    ),
    _entry(
        "communication",
        r"DistBackendError|DistStoreError|ncclRemoteError|ncclSystemError|ncclInternalError|NCCL (?:error|WARN) "
        r"|gloo.*(?:Connection closed|Connection reset|Timed out|Broken pipe|Read error|Write error)"
        r"|Connection (?:closed|reset) by peer|Broken pipe|^EOFError$",
        "{who} lost its connection to another rank",
        _PARTNER,
        Level.ECHO,
    ),
    _entry(
        "torchrun",
        r"ChildFailedError|SubprocessError|CalledProcessError",
        "a process that {who} started failed",
        "see what it wrote before",
        Level.ECHO,
    ),
    _entry(
        "command not found",
        rf"{_SHELL}(\S+): command not found|{_SHELL}exec: (\S+): not found|"
        r"(?<!\S)(\S+): executable file not found|env: \W*([^'’:]+)\W*: No such file",
        "there is no command {0} where the job runs",
        "install it there (startup_commands, or another image), or name its full path",
        Level.CRASH,
    ),
    _entry("missing file", r"can't open file '([^']+)'", "there is no {0} where the job runs", _PATH, Level.CRASH),
    _entry(
        "missing file",
        r"FileNotFoundError: .*No such file or directory: '([^']+)'|FileNotFoundError: (.+)",
        "{who} misses {0}",
        _PATH,
    ),
    _entry(
        "missing file",
        rf"{_SHELL}(?:cd: )?([^:]+): No such file or directory",
        "there is no {0} where the job runs",
        _PATH,
        Level.CRASH,
    ),
    _entry(
        "missing file", r"(?<![^\s:])([^\s:]+): No such file or directory", "there is no {0} where the job runs", _PATH
    ),
    _entry("permission", r"PermissionError: .*?(?:'([^']+)')?$", "{who} may not use {0}", _RIGHTS),
    _entry("permission", rf"{_SHELL}([^:]+): Permission denied", "the job may not use {0}", _RIGHTS, Level.CRASH),
    _entry("permission", r"(?<![^\s:])([^\s:]+): Permission denied", "the job may not use {0}", _RIGHTS),
    _entry(
        "user code",
        r"^EOFError: EOF when reading a line",
        "{who} asked for input, and there was none",
        _INPUT,
    ),
    _entry(
        "user code",
        r"^(?:bdb\.)?BdbQuit\b",
        "{who} was ended at a breakpoint",
        _INPUT,
    ),
    _entry(
        "user code",
        rf"{_SHELL}(?:syntax error|.*unbound variable|.*unexpected EOF)",
        "a shell command is wrong",
        "see startup_commands and run_command",
        Level.CRASH,
    ),
    _entry(
        "import error",
        r"ERROR: (?:No matching distribution found for|Could not find a version that satisfies the requirement) (\S+)",
        "pip cannot install {0}",
        "see its name and version, and whether compute nodes reach the package index",
        Level.CRASH,
    ),
    _entry(
        "shared memory",
        r"\bBus error\b",
        "{who} ended with a bus error, often for want of shared memory (/dev/shm)",
        _SHM,
        Level.CRASH,
    ),
    _entry(
        "crash",
        r"Segmentation fault|Fatal Python error: Segmentation fault|SIGSEGV",
        "{who} crashed (segmentation fault)",
        'a library of the environment, or a GPU: env_vars = { PYTHONFAULTHANDLER = "1" } shows where',
        Level.CRASH,
    ),
    _entry(
        "crash",
        r"Illegal instruction|SIGILL",
        "{who} crashed (illegal instruction)",
        "its software was built for other processors than this node's",
        Level.CRASH,
    ),
    _entry(
        "crash",
        r"Fatal Python error: |^free\(\): |double free|malloc\(\): |Aborted \(core dumped\)|terminate called",
        "{who} crashed",
        "the lines before it in the log say where",
        Level.CRASH,
    ),
    _entry(
        "arguments",
        r"^(?!slurmstepd|srun:|sbatch:)\S+: error: (.+)",
        "a command line is wrong: {0}",
        "see the overrides and run_command",
    ),
)

_CLUSTER = r"(?:slurmstepd|srun|sbatch|salloc|pyxis|enroot)\S*: "
_EXCEPTION = r"(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)"
OWN_ERROR = re.compile(
    rf"^(?!{_CLUSTER})(?:(?={_EXCEPTION}: )|(?:\S+: )?(?:[Ee]rror|ERROR|[Ff]atal(?: error)?|FATAL): )(\S.*)"
)
"""How programs begin the line with which they give up: argparse's, a command line's, a recipe's own, an exception's
without its traceback."""

LAUNCHER = re.compile(r"^[EWI]\d{4} \S+ +\d+ (?:\S*/)?torch/distributed/|^(?:ERROR|WARNING|INFO):torch\.distributed\.")
"""Lines that torchrun writes of itself once a process of its has ended, of PyTorch 2 and of 1."""

ANY = re.compile("|".join(f"(?:{pattern.regex.pattern})" for pattern in PATTERNS))
"""Finds nothing in most lines, which then need not be tried with each of them."""
