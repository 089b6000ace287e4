"""What a plan carries for Slurm, made of the merged profile. Pure: nothing is asked of a cluster."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.checks import Mount, as_text, one_per_target, raise_problems, read_mounts
from nemo_runspec.backends.slurm.containers import build as builds
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.paths import run_dir
from nemo_runspec.backends.slurm.problems import problems_of, unfilled, warnings
from nemo_runspec.backends.slurm.signals import is_placeholder, signal_option, time_problem
from nemo_runspec.backends.slurm.spellings import exclusive, job_id, snake
from nemo_runspec.backends.stall import stall_seconds
from nemo_runspec.errors import UserError
from nemo_runspec.field import carried_values
from nemo_runspec.paths import below
from nemo_runspec.plans.storage import Storage, may_be_mounted_over, mounts_of_words

_END_IF_NEVER = "kill_on_invalid_dep"
"""Has Slurm end a job that waits for one that has failed; else it stays in the queue for ever (sbatch(1))."""


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
    given = {**env, "time": env.get(time_key)}
    carried = carried_values(SlurmTarget, given)
    time: str = carried["time"]
    if not is_placeholder(time):
        found += time_problem(time_key, time)
    mounts = _mounts(env, builds.build_mounts(env) if _is_build(request) else (), found)
    store = _unmounted(request.store, mounts)
    raise_problems("slurm", found)
    return replace(
        SlurmTarget(**carried),
        remote_job_dir=run_dir(env),
        partition=_chosen_partition(request),
        signal=signal_option(as_text(env.get("signal")), time, resume=bool(env.get("resume"))),
        dependencies=_job_ids(env),
        additional_parameters=_additional(env),
        exclusive=exclusive(env.get("exclusive")),
        gpus_untold=exclusive(env.get("exclusive")) in _WHOLE and env.get("gpus_per_node") is None,
        mounts=(f"{store}:{store}", *mounts) if store else mounts,  # first: what lies inside it goes over it
        store=store,
        stall_timeout=stall_seconds(env.get("stall_timeout")),
        build_cache_dir=builds.cache_dir(env) if _is_build(request) else None,
        build_registries=builds.registries(env) if _is_build(request) else (),
        warnings=tuple(warnings(env, time)),
        unfilled=tuple(unfilled(env, time_key, time)),
    )


_WHOLE = (True, "topo")
"""An `exclusive` by which a job has all GPUs of its nodes, asked for or not (sbatch's manual page, --exclusive)."""


def after(target: SlurmTarget, env: Mapping[str, Any], ids: Sequence[str]) -> SlurmTarget:
    """The target of a job that also waits for these jobs. Slurm ends it where one of them does not succeed.

    Without any, the target is as its profile says, whatever it waited for before.

    Raises:
        UserError: its own dependencies are of another type, which NeMo-Run cannot join with `afterok`.
    """
    own, kind = _job_ids(env), carried_values(SlurmTarget, env)["dependency_type"]
    if not ids:
        return replace(target, dependencies=own, dependency_type=kind, additional_parameters=_additional(env))
    if own and kind != "afterok":
        raise UserError(
            f'dependency_type = "{kind}": this job has to wait for the end of {", ".join(ids)} too, as afterok',
            remedy="make its inputs first, or leave dependencies out",
            key="dependency_type",
        )
    given = {_END_IF_NEVER: "yes", **_additional(env)}
    return replace(target, dependencies=(*own, *ids), dependency_type="afterok", additional_parameters=given)


def _job_ids(env: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(job_id(text) for text in env.get("dependencies") or ())


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
            what = f"mounts: '{mount}' needs a source that begins with / or $, and no comma"
            remedy = 'write the path as the cluster names it, such as "/lustre:/lustre" or "$HOME/data:/data"'
            problems.append(UserError(what, remedy=remedy, key="mounts"))
    if not env.get("container_image"):
        return ()
    folder = run_dir(env)
    mounted = any(mount.source == mount.target and below(folder, mount.target) for mount in given)
    own = () if mounted else (Mount(folder, folder),)
    return tuple(map(str, one_per_target((*given, *own, *added), problems)))


def _unmounted(store: str, mounts: tuple[str, ...]) -> str | None:
    """The folder of artifacts where a container with these mounts does not see it, and it can be one of them."""
    if not mounts or not store or Storage(mounts_of_words(mounts)).mount_of(store) or not may_be_mounted_over(store):
        return None
    return posixpath.normpath(store)
