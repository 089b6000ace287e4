"""What a Slurm profile may say, and the target a plan gets from it. Pure: nothing is asked of a cluster.

The arguments of NeMo-Run's `SlurmExecutor` named here are those of 0.11.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_runspec import paths
from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.checks import (
    MOUNTED,
    VARIABLE,
    Mount,
    as_text,
    below,
    control_characters,
    lists,
    one_per_target,
    raise_problems,
    read_mounts,
    texts,
)
from nemo_runspec.backends.slurm.shape import array_size, gpus_of_job
from nemo_runspec.backends.slurm.time import is_placeholder, time_problem
from nemo_runspec.errors import UserError
from nemo_runspec.field import Field
from nemo_runspec.profiles.common import adopt

if TYPE_CHECKING:
    from nemo_runspec.plan.model import Resources

HOME = "@HOME@"
"""Stands for the home directory on the other side of an SSH tunnel: a named hole, filled when a job is submitted.

It has no character a shell or Slurm reads specially, so that filling it changes nothing else in a text.
"""

HOST = "@HOST@"
"""Stands for a login node that the profile does not name yet: a named hole."""

HOST_REMEDY = 'host = "login.cluster.example.com"'

_SUBMISSION = (
    Field("account", "str", "Account the job is billed to. Sites without accounts need none.", nemo_run="account"),
    Field("partition", "str", "Partition; by default the cluster's.", nemo_run="partition"),
    Field("run_partition", "str", "Partition for attached jobs (--run); by default partition.", nemo_run="partition"),
    Field(
        "batch_partition", "str", "Partition for detached jobs (--batch); by default partition.", nemo_run="partition"
    ),
    Field(
        "time",
        "int|str",
        "Time limit as sbatch takes it: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S; 0 means no limit.",
        default="04:00:00",
        nemo_run="time",
    ),
    Field("qos", "str", "Quality of service.", nemo_run="qos"),
    Field(
        "job_name_prefix",
        "str",
        "Put before nemotron's own job name, such as myaccount-team.",
        nemo_run="job_name_prefix",
    ),
    Field("retries", "count", "How often Slurm requeues the job after it failed.", default=0, nemo_run="retries"),
    Field("dependencies", "list[str]", "Slurm job ids that this job waits for.", default=[], nemo_run="dependencies"),
    Field(
        "dependency_type",
        "str",
        "How it waits for dependencies.",
        default="afterok",
        choices=("after", "afterany", "afterburstbuffer", "aftercorr", "afternotok", "afterok"),
        nemo_run="dependency_type",
    ),
    Field(
        "additional_parameters",
        "table[scalar]",
        'Further sbatch options, such as { mail_type = "END", reservation = "name" }; true for one without a value.',
        nemo_run="additional_parameters",
    ),
)

_RESOURCES = (
    adopt("nodes", nemo_run="nodes"),
    adopt("gpus_per_node", nemo_run="gpus_per_node"),
    adopt(
        "nproc_per_node",
        help="Processes per node; by default gpus_per_node, else 1. Under torchrun and ray they share one Slurm task "
        "per node; under direct each is a task.",
        nemo_run="ntasks_per_node",
    ),
    Field(
        "cpus_per_task",
        "positive",
        "CPU cores per task. Under torchrun and ray a node has one task, so this counts a whole node's cores.",
        nemo_run="cpus_per_task",
    ),
    Field("cpus_per_gpu", "positive", "CPU cores per GPU; Slurm wants gpus_per_task with it.", nemo_run="cpus_per_gpu"),
    Field("gpus_per_task", "positive", "GPUs per task.", nemo_run="gpus_per_task"),
    Field("mem", "int|str", 'Memory per node, such as "200G"; "0" for all of it.', nemo_run="mem"),
    Field("mem_per_gpu", "int|str", "Memory per GPU.", nemo_run="mem_per_gpu"),
    Field("mem_per_cpu", "int|str", "Memory per CPU core.", nemo_run="mem_per_cpu"),
    Field("exclusive", "bool|str", 'Have nodes to yourself: true, "user", "mcs" or "topo".', nemo_run="exclusive"),
    Field("gres", "str", "Generic resources, such as gpu:h100:8.", nemo_run="gres"),
    Field("constraint", "str", "Node features the job needs.", nemo_run="constraint"),
    Field("exclude", "str", "Nodes to stay away from.", nemo_run="exclude"),
    Field("segment", "positive", "Nodes per block of a block topology (Slurm 23.11 or later).", nemo_run="segment"),
    Field("network", "str", "Network or switch options.", nemo_run="network"),
    Field("array", "int|str", "Job array, such as 0-7%2.", nemo_run="array"),
    Field("signal", "str", "Signal before the time limit, such as B:USR1@300.", nemo_run="signal"),
    Field("comment", "str", "Comment on the job.", nemo_run="comment"),
    Field(
        "open_mode",
        "str",
        "What a requeued job does with its log.",
        default="append",
        choices=("append", "truncate"),
        nemo_run="open_mode",
    ),
)

_TASKS = (
    adopt("container_image", nemo_run="container_image"),
    adopt(
        "mounts",
        help='What the container sees: "source:target[:flags]", the source a path on the cluster. $NAME is filled in '
        "there; a source that begins with /$nemo_run lies in the job's own directory. Joined with the recipe's own.",
        nemo_run="container_mounts",
    ),
    Field(
        "container_env",
        "list[str]",
        "Variables of setup_lines or the cluster that win over the image's own. The job's variables always do.",
        default=[],
        nemo_run="container_env",
    ),
    Field(
        "srun_args",
        "list[str]",
        "Further srun options, such as --mpi=pmix, as the batch script's shell should read them.",
        default=[],
        nemo_run="srun_args",
    ),
    Field("setup_lines", "str", "Shell lines of the batch script, run once before srun.", nemo_run="setup_lines"),
    Field(
        "memory_measure",
        "bool",
        "Run nvidia-smi on the job before it starts.",
        default=False,
        nemo_run="memory_measure",
    ),
    adopt("packager", nemo_run="packager"),
)

_TUNNEL = (
    Field(
        "tunnel",
        "str",
        "How sbatch is reached: local (this machine is a login node; the default) or ssh.",
        choices=("local", "ssh"),
        nemo_run="tunnel",
    ),
    Field("host", "str", "ssh: login node, or an alias of ~/.ssh/config."),
    Field("user", "str", "ssh: user name there; by default what ssh itself would use."),
    Field("port", "positive", "ssh: port."),
    Field("identity", "str", "ssh: private key file on this machine; ~ is your home."),
    Field(
        "remote_job_dir",
        "str",
        "Directory for jobs, outputs and caches, as the cluster names it; ~ is your home there. By default "
        "$NEMOTRON_HOME/run, else ~/.nemotron/run, without ssh, and ~/.nemotron/run there with it.",
    ),
)

_BUILD = (
    Field("build_partition", "str", "Partition of container builds; by default the job's partition."),
    Field("build_time", "int|str", "Time limit of container builds; by default time."),
    Field("build_cache_dir", "str", "Directory on the cluster where container builds keep and leave images."),
)

FIELDS: tuple[Field, ...] = (*_SUBMISSION, *_RESOURCES, *_TASKS, *_TUNNEL, *_BUILD)

EXCLUDED: Mapping[str, str] = {
    "env_vars": "the job script exports them: NeMo-Run writes all names in capitals and quotes no value",
    "launcher": "the job script holds the launcher's command line",
    "torchrun_nproc_per_node": "the job script's own torchrun line carries nproc_per_node",
    "experiment_id": "NeMo-Run's experiments set it",
    "job_dir": "NeMo-Run's experiments set it; a plan's job has its directory from remote_job_dir",
    "job_details": "set from the job's name",
    "heterogeneous": "for several tasks in one job; a plan is one task",
    "het_group_indices": "as heterogeneous",
    "wait_time_for_group_job": "as heterogeneous",
    "monitor_group_job": "as heterogeneous",
    "monitor_group_job_wait_time": "as heterogeneous",
    "ray_template": "the job script starts Ray",
    "poll_estimated_start_time": "a thread that prints in the middle of other output; always off",
}
"""Arguments of NeMo-Run's executor that no profile key fills, and why."""

_OWN_OPTIONS: Mapping[str, str] = {
    **{f.nemo_run: f.name for f in FIELDS if f.nemo_run and f.name not in ("run_partition", "batch_partition")},
    "ntasks_per_node": "nproc_per_node",
    "job_name": "job_name_prefix",
    "output": "remote_job_dir",
    "error": "remote_job_dir",
    "dependency": "dependencies",
}
"""sbatch options that have a key of their own; in `additional_parameters` they would contradict the plan."""

_PATH = re.compile(r"[A-Za-z0-9_@+=./-]+")
_NAME = re.compile(r"[A-Za-z0-9_.+-]*")
_JOB_ID = re.compile(r"[0-9]+([_+][0-9]+|_\*)?")
_OPTION = re.compile(r"[a-z][a-z0-9_-]*")
_LOGIN = re.compile(r"[^\s-]\S*")
_EXCLUSIVE = ("user", "mcs", "topo")
"""Words of `--exclusive=`, as sbatch's manual page has them."""


@dataclass(frozen=True)
class SlurmTarget:
    """A Slurm job beyond what every plan says. Empty strings are None here; `time` and `partition` are the final ones.

    Args:
        mounts: `source:target[:flags]` for the container, `remote_job_dir` among them.
        exclusive: True, a word, or None; never False, which NeMo-Run would hand to Slurm as a word.
        additional_parameters: in snake case; True for an option without a value.
        tunnel: `local` or `ssh`.
        remote_job_dir: absolute, or below `HOME`.
        build_cache_dir: only for container builds.
        host: None without ssh, and where the profile must still name it.
        warnings: what is odd but not wrong.
        unfilled: what must be mended before a submission.
    """

    tunnel: str
    remote_job_dir: str
    time: str
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    job_name_prefix: str | None = None
    retries: int = 0
    dependencies: tuple[str, ...] = ()
    dependency_type: str = "afterok"
    additional_parameters: dict[str, Any] = field(default_factory=dict)
    cpus_per_task: int | None = None
    cpus_per_gpu: int | None = None
    gpus_per_task: int | None = None
    mem: str | None = None
    mem_per_gpu: str | None = None
    mem_per_cpu: str | None = None
    exclusive: bool | str | None = None
    gres: str | None = None
    constraint: str | None = None
    exclude: str | None = None
    segment: int | None = None
    network: str | None = None
    array: str | None = None
    signal: str | None = None
    comment: str | None = None
    open_mode: str = "append"
    container_image: str | None = None
    mounts: tuple[str, ...] = ()
    container_env: tuple[str, ...] = ()
    srun_args: tuple[str, ...] = ()
    setup_lines: str | None = None
    memory_measure: bool = False
    host: str | None = None
    user: str | None = None
    port: int | None = None
    identity: str | None = None
    build_cache_dir: str | None = None
    warnings: tuple[str, ...] = ()
    unfilled: tuple[str, ...] = ()

    def gpus(self, resources: Resources) -> int | None:
        """GPUs of the whole job, whichever option asks for them; None for an option this does not read."""
        return gpus_of_job(self, resources)

    def runs(self) -> int:
        """Tasks of the array, each once more per retry."""
        return array_size(self.array) * (self.retries + 1)


def run_dir(env: Mapping[str, Any]) -> str:
    """`remote_job_dir` as the cluster names it: absolute, or below `HOME` where only the cluster knows it."""
    named = str(env.get("remote_job_dir") or "").rstrip("/")
    if env.get("tunnel") == "ssh":
        return re.sub(r"^~(?=/|$)", HOME, named) or f"{HOME}/.nemotron/run"
    return str(Path(named).expanduser() if named else paths.run_dir())


def make_target(request: TargetRequest) -> SlurmTarget:
    """The Slurm part of a plan.

    Raises:
        UserError: values Slurm or NeMo-Run would misread, all of them at once.
    """
    env = request.env
    problems = [*_problems(env), *_tunnel_problems(env)]
    time_key = _time_key(request)
    time = "04:00:00" if env.get(time_key) in (None, "") else str(env[time_key])
    if not is_placeholder(time):
        problems += time_problem(time_key, time)
    mounts = _mounts(env, problems)
    raise_problems("slurm", problems)
    return SlurmTarget(
        tunnel=env.get("tunnel") or "local",
        remote_job_dir=run_dir(env),
        time=time,
        partition=_chosen_partition(request),
        retries=env.get("retries") or 0,
        dependencies=tuple(_job_id(text) for text in env.get("dependencies") or ()),
        dependency_type=env.get("dependency_type") or "afterok",
        additional_parameters=_additional(env),
        exclusive=_exclusive(env.get("exclusive")),
        open_mode=env.get("open_mode") or "append",
        mounts=mounts,
        memory_measure=bool(env.get("memory_measure")),
        build_cache_dir=as_text(env.get("build_cache_dir")) if _is_build(request) else None,
        warnings=tuple(_warnings(env)),
        unfilled=tuple(_unfilled(env, time_key, time)),
        **lists(env, "container_env", "srun_args"),
        **_counts(env, "cpus_per_task", "cpus_per_gpu", "gpus_per_task", "segment", "port"),
        **texts(env, *_TEXTS),
    )


_TEXTS = (
    "account", "qos", "job_name_prefix", "mem", "mem_per_gpu", "mem_per_cpu", "gres", "constraint", "exclude",
    "network", "array", "signal", "comment", "container_image", "setup_lines", "host", "user", "identity",
)  # fmt: skip

_ONE_LINE = (
    *(key for key in _TEXTS if key != "setup_lines"), "partition", "run_partition", "batch_partition",
    "build_partition", "remote_job_dir", "mounts", "container_env", "srun_args", "additional_parameters",
)  # fmt: skip


def _counts(env: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: env.get(key) or None for key in keys}


def _is_build(request: TargetRequest) -> bool:
    return request.kind == "build"


def _chosen_partition(request: TargetRequest) -> str | None:
    keys = (*(("build_partition",) if _is_build(request) else ()), f"{request.mode}_partition", "partition")
    key = _first_set(request, keys)
    return str(request.env[key]) if key else None


def _time_key(request: TargetRequest) -> str:
    keys = ("build_time", "time") if _is_build(request) else ("time",)
    return _first_set(request, keys) or "time"


def _first_set(request: TargetRequest, keys: tuple[str, ...]) -> str | None:
    """The first of the keys that is set, one of the command line before all others."""
    found = [key for key in keys if request.env.get(key) not in (None, "")]
    return next((key for key in found if key in request.given), found[0] if found else None)


def _exclusive(value: Any) -> bool | str | None:
    """NeMo-Run writes `--exclusive=False`, which Slurm refuses; only None leaves the option out."""
    if isinstance(value, str) and value.lower() in ("true", "false", ""):
        return True if value.lower() == "true" else None
    return value or None


def _additional(env: Mapping[str, Any]) -> dict[str, Any]:
    given = env.get("additional_parameters") or {}
    return {_snake(key): value for key, value in given.items() if value is not None and value is not False}


def _snake(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def _job_id(text: str) -> str:
    """A Slurm job id, out of a NeMo-Run handle (`slurm_tunnel://nemo_run/1234/…`) where it is one."""
    return text.partition("://")[2].split("/")[1] if re.match(r"\w+://[^/]*/.", text) else text


def _mounts(env: Mapping[str, Any], problems: list[UserError]) -> tuple[str, ...]:
    given = read_mounts(env.get("mounts") or (), "slurm", problems)
    for mount in given:
        if not mount.source.startswith(("/", "$")) or "," in str(mount):
            problems.append(
                UserError(
                    f"mounts: '{mount}' needs a source that begins with / or $, and no comma",
                    remedy='write the path as the cluster names it, such as "/lustre:/lustre" or "$HOME/data:/data"',
                )
            )
    if not env.get("container_image"):
        return ()
    folder = run_dir(env)
    seen = any(mount.source == mount.target and below(folder, mount.target) for mount in given)
    own = () if seen else (Mount(folder, folder),)
    return tuple(map(str, one_per_target((*given, *own), problems)))


def _problems(env: Mapping[str, Any]) -> list[UserError]:
    problems = control_characters(env, _ONE_LINE)
    prefix = str(env.get("job_name_prefix") or "")
    if not _NAME.fullmatch(prefix):
        problems.append(UserError(f"job_name_prefix may hold letters, digits and . _ - +, not {prefix!r}"))
    for text in env.get("dependencies") or ():
        if not _JOB_ID.fullmatch(_job_id(text)):
            problems.append(UserError(f"dependencies: {text!r} is not a Slurm job id", remedy='such as "123456"'))
    for name in env.get("container_env") or ():
        if not VARIABLE.fullmatch(name):
            problems.append(UserError(f"container_env: {name!r} is not the name of a variable"))
    word = env.get("exclusive")
    if isinstance(word, str) and _exclusive(word) not in (True, None, *_EXCLUSIVE):
        problems.append(
            UserError(f"exclusive = {word!r} is no word of Slurm's", remedy=f"true, or one of {', '.join(_EXCLUSIVE)}")
        )
    return [*problems, *_option_problems(list(env.get("additional_parameters") or {}))]


def _option_problems(options: list[str]) -> list[UserError]:
    problems = []
    spellings: dict[str, str] = {}
    for option in options:
        key = _OWN_OPTIONS.get(_snake(option))
        other = spellings.setdefault(_snake(option), option)
        if not _OPTION.fullmatch(option.removeprefix("--")):
            problems.append(
                UserError(
                    f"additional_parameters: {option!r} is not the name of an sbatch option",
                    remedy="write its long name in small letters, such as mail_type",
                )
            )
        elif key is not None:
            problems.append(
                UserError(f"additional_parameters.{option} has a key of its own", remedy=f"set {key} instead")
            )
        elif other != option:
            problems.append(
                UserError(f"additional_parameters: {other!r} and {option!r} are the same option", remedy="keep one")
            )
    return problems


def _tunnel_problems(env: Mapping[str, Any]) -> list[UserError]:
    problems = []
    named, folder = env.get("remote_job_dir"), run_dir(env)
    for key in ("host", "user"):
        if env.get(key) and not _LOGIN.fullmatch(str(env[key])):
            problems.append(
                UserError(
                    f"{key} may not begin with - nor hold white space: {env[key]!r}", remedy="write the name alone"
                )
            )
    if env.get("host") and not env.get("tunnel"):
        problems.append(
            UserError(
                f'host = "{env["host"]}" but no tunnel: the job would be submitted from this machine',
                remedy='add tunnel = "ssh" to submit there, or tunnel = "local" to ignore host',
            )
        )
    if named and not folder.startswith(("/", HOME)):
        problems.append(
            UserError(
                f"remote_job_dir must be absolute or begin with ~/, not {named!r}", remedy="such as /lustre/me/run"
            )
        )
    elif not _PATH.fullmatch(folder):
        problems.append(
            UserError(
                f"remote_job_dir may hold letters, digits and / . _ - + = @, not {folder!r}",
                remedy="Slurm reads it in #SBATCH lines, where no shell fills in a variable; ${oc.env:USER} works",
            )
        )
    elif MOUNTED in folder and not env.get("container_image"):
        problems.append(
            UserError(
                f"remote_job_dir {folder!r} holds '{MOUNTED}', which NeMo-Run replaces in jobs without a container",
                remedy="name a directory without it",
            )
        )
    return problems


def _unfilled(env: Mapping[str, Any], time_key: str, time: str) -> list[str]:
    found = []
    if is_placeholder(time):
        found.append(f"{time_key} is still a placeholder: {time!r}")
    if env.get("tunnel") == "ssh" and not env.get("host"):
        found.append(f'host is not set: tunnel = "ssh" needs the login node, such as {HOST_REMEDY}')
    return found


def _warnings(env: Mapping[str, Any]) -> list[str]:
    found = []
    if env.get("mounts") and not env.get("container_image"):
        found.append("mounts are not used: the job has no container_image")
    if env.get("cpus_per_gpu") and not env.get("gpus_per_task"):
        found.append("cpus_per_gpu has no effect without gpus_per_task")
    return found
