"""What a plan carries for Slurm, made of the merged profile. Pure: nothing is asked of a cluster."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.checks import (
    MOUNTED,
    Mount,
    as_text,
    below,
    lists,
    one_per_target,
    raise_problems,
    read_mounts,
    texts,
)
from nemo_runspec.backends.slurm.containers import build as builds
from nemo_runspec.backends.slurm.places import HOME, run_dir
from nemo_runspec.backends.slurm.problems import problems_of, unfilled, warnings
from nemo_runspec.backends.slurm.shape import array_size, gpus_of_job
from nemo_runspec.backends.slurm.signals import signal_option
from nemo_runspec.backends.slurm.time import is_placeholder, time_problem
from nemo_runspec.backends.slurm.words import TEXTS, exclusive, job_id, snake
from nemo_runspec.backends.stall import stall_seconds
from nemo_runspec.backends.storage import Storage, may_be_mounted_over, mounts_of_words
from nemo_runspec.backends.target import Target
from nemo_runspec.errors import UserError

if TYPE_CHECKING:
    from nemo_runspec.planning.model import Resources


_JOB_DIR = "/$nemo_run"
"""What NeMo-Run replaces by the job's directory at the front of a mount's source."""

_END_IF_NEVER = "kill_on_invalid_dep"
"""Has Slurm end a job that waits for one that has failed; else it stays in the queue for ever (sbatch(1))."""

STALLS = 3
"""How often a job is requeued after it stalled, at most; `script/stall.sh` has it too."""


@dataclass(frozen=True)
class SlurmTarget(Target):
    """A Slurm job beyond what every plan says. Empty strings are None here; `time` and `partition` are the final ones.

    Args:
        mounts: `source:target[:flags]` for the container, `remote_job_dir` among them.
        store: the folder of artifacts where it is one of them only because the job needs it; None where it is not.
        resume: requeue the job after its time limit or a preemption; at most `max_restarts` times.
        signal: as sbatch gets it, always with `B:`; there is one with `resume`.
        exclusive: True, a word, or None; never False, which NeMo-Run would hand to Slurm as a word.
        additional_parameters: in snake case; True for an option without a value.
        stall_timeout: seconds.
        tunnel: `local` or `ssh`.
        remote_job_dir: absolute, or below `HOME`.
        build_cache_dir, build_registries: only for container builds.
        host: None without ssh, and where the profile must still name it.
        warnings: what is odd but not wrong.
        unfilled: what must be mended before a submission.
    """

    tunnel: str
    remote_job_dir: str
    time: str = field()
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    job_name_prefix: str | None = None
    retries: int = 0
    resume: bool = False
    max_restarts: int = 10
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
    store: str | None = None
    container_env: tuple[str, ...] = ()
    srun_args: tuple[str, ...] = ()
    setup_lines: str | None = None
    memory_measure: bool = False
    health_check: bool = False
    stall_timeout: int | None = None
    stall_action: str = "stop"
    host: str | None = None
    user: str | None = None
    port: int | None = None
    identity: str | None = None
    accept_new_host_key: bool = False
    build_cache_dir: str | None = None
    build_registries: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unfilled: tuple[str, ...] = ()

    def gpus(self, resources: Resources) -> int | None:
        """GPUs of the whole job, whichever option asks for them; None for an option this does not read."""
        return gpus_of_job(self, resources)

    def attempts(self) -> int:
        """How often a job may be started: retries after failures, and continuations of what was cut short."""
        return 1 + self.retries + (self.max_restarts if self.resume else 0)

    def storage(self, job_dir: str) -> Storage:
        """As `Target.storage`: without a container, the file systems that login and compute nodes share."""
        if not self.container_image:
            return Storage(whole=True)
        words = [word.replace(_JOB_DIR, job_dir, 1) if word.startswith(_JOB_DIR) else word for word in self.mounts]
        given = [word.partition("=")[2] for word in self.srun_args if word.startswith("--container-mounts=")]
        more = (word for text in given for word in text.split(","))
        return Storage(mounts_of_words((*words, *more, f"{job_dir}:{MOUNTED}")), homes=(HOME,))

    def runs(self) -> int:
        """Tasks of the array, each once more per retry and restart."""
        restarts = self.max_restarts if self.resume else 0
        stalls = STALLS if self.stall_timeout and self.stall_action == "requeue" else 0
        return array_size(self.array) * (1 + self.retries + restarts + stalls)


def make_target(request: TargetRequest) -> SlurmTarget:
    """The Slurm part of a plan.

    Raises:
        UserError: values Slurm or NeMo-Run would misread, all of them at once.
    """
    if _is_build(request):
        request = builds.for_build(request)
    env = request.env
    found = [*problems_of(env), *(builds.build_problems(env) if _is_build(request) else ())]
    time_key = _time_key(request)
    time = "04:00:00" if env.get(time_key) in (None, "") else str(env[time_key])
    if not is_placeholder(time):
        found += time_problem(time_key, time)
    mounts = _mounts(env, builds.build_mounts(env) if _is_build(request) else (), found)
    store = _unmounted(request.store, mounts)
    raise_problems("slurm", found)
    return SlurmTarget(
        tunnel=env.get("tunnel") or "local",
        remote_job_dir=run_dir(env),
        time=time,
        partition=_chosen_partition(request),
        retries=env.get("retries") or 0,
        **_restarts(env, time),
        dependencies=tuple(job_id(text) for text in env.get("dependencies") or ()),
        dependency_type=env.get("dependency_type") or "afterok",
        additional_parameters=_additional(env),
        exclusive=exclusive(env.get("exclusive")),
        open_mode=env.get("open_mode") or "append",
        mounts=(f"{store}:{store}", *mounts) if store else mounts,  # first: what lies inside it goes over it
        store=store,
        accept_new_host_key=bool(env.get("accept_new_host_key")),
        memory_measure=bool(env.get("memory_measure")),
        health_check=bool(env.get("health_check")),
        stall_timeout=stall_seconds(env.get("stall_timeout")),
        stall_action=env.get("stall_action") or "stop",
        build_cache_dir=builds.cache_dir(env) if _is_build(request) else None,
        build_registries=builds.registries(env) if _is_build(request) else (),
        warnings=tuple(warnings(env, time)),
        unfilled=tuple(unfilled(env, time_key, time)),
        **lists(env, "container_env", "srun_args"),
        **_counts(env, "cpus_per_task", "cpus_per_gpu", "gpus_per_task", "segment", "port"),
        **texts(env, *(key for key in TEXTS if key != "signal")),
    )


def after(target: SlurmTarget, env: Mapping[str, Any], ids: Sequence[str]) -> SlurmTarget:
    """The target of a job that also waits for these jobs. Slurm ends it where one of them does not succeed.

    Without any, the target is as its profile says, whatever it waited for before.

    Raises:
        UserError: its own dependencies are of another type, which NeMo-Run cannot join with `afterok`.
    """
    own, kind = tuple(job_id(text) for text in env.get("dependencies") or ()), env.get("dependency_type") or "afterok"
    if not ids:
        return replace(target, dependencies=own, dependency_type=kind, additional_parameters=_additional(env))
    if own and kind != "afterok":
        raise UserError(
            f'dependency_type = "{kind}": this job has to wait for the end of {", ".join(ids)} too, as afterok',
            remedy="make its inputs first, or leave dependencies out",
        )
    given = {_END_IF_NEVER: "yes", **_additional(env)}
    return replace(target, dependencies=(*own, *ids), dependency_type="afterok", additional_parameters=given)


def _restarts(env: Mapping[str, Any], time: str) -> dict[str, Any]:
    resume, most = bool(env.get("resume")), env.get("max_restarts")
    return {
        "resume": resume,
        "max_restarts": 10 if most is None else most,
        "signal": signal_option(as_text(env.get("signal")), time, resume=resume),
    }


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


def _additional(env: Mapping[str, Any]) -> dict[str, Any]:
    given = env.get("additional_parameters") or {}
    return {snake(key): value for key, value in given.items() if value is not None and value is not False}


def _mounts(env: Mapping[str, Any], added: tuple[Mount, ...], problems: list[UserError]) -> tuple[str, ...]:
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
    return tuple(map(str, one_per_target((*given, *own, *added), problems)))


def _unmounted(store: str, mounts: tuple[str, ...]) -> str | None:
    """The folder of artifacts where a container with these mounts does not see it, and it can be one of them."""
    if not mounts or not store or Storage(mounts_of_words(mounts)).mount_of(store) or not may_be_mounted_over(store):
        return None
    return posixpath.normpath(store)
