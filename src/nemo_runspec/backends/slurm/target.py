"""The target of Slurm, made of the merged profile, and the problems of one: what Slurm, the shell or
NeMo-Run would misread, what a site must still fill in. Pure: nothing is asked of a cluster.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.checks import (
    MOUNTED,
    VARIABLE,
    Mount,
    as_text,
    control_characters,
    one_per_target,
    raise_problems,
    read_mounts,
    shortened_value,
)
from nemo_runspec.backends.slurm import build as builds
from nemo_runspec.backends.slurm.fields import FIELDS, SlurmTarget
from nemo_runspec.backends.slurm.values import (
    HOME,
    HOST_REMEDY,
    PATH,
    array_problem,
    comes_at_once,
    exclusive,
    is_placeholder,
    job_id,
    lead_of,
    leaves_little,
    run_dir,
    signal_option,
    signal_problem,
    snake,
    time_problem,
)
from nemo_runspec.backends.stall import stall_problem, stall_seconds
from nemo_runspec.errors import Code, Unfilled, UserError
from nemo_runspec.field import carried_values
from nemo_runspec.paths import below
from nemo_runspec.plans.meant_keys import BUILD, deciding_key, meant_keys
from nemo_runspec.plans.storage import Storage, may_be_mounted_over, mounts_of_words

_OWN_OPTIONS: Mapping[str, str] = {
    **{name: f.name for f in reversed(FIELDS) for name in (f.nemo_run, f.sbatch) if name},
    "job_name": "job_name_prefix",
    "output": "remote_job_dir",
    "error": "remote_job_dir",
    "dependency": "dependencies",
}
"""sbatch options that have a key of their own; in `additional_parameters` they would contradict the plan."""

_NOT_OURS: Mapping[str, str] = {
    "wait": "sbatch would not answer before the job has ended: leave it out, and take --run to wait for the job",
    "test_only": "nothing would be submitted: nemotron doctor asks Slurm whether it would take the job",
    "wrap": "the batch script is nemotron's: leave it out, and take setup_lines",
    "help": "nothing would be submitted: leave it out",
    "usage": "nothing would be submitted: leave it out",
    "version": "nothing would be submitted: leave it out",
}
"""sbatch options that change how it is to be called, not the job, and what to do instead."""

_NAME = re.compile(r"[A-Za-z0-9_.+-]*")
_JOB_ID = re.compile(r"[0-9]+([_+][0-9]+|_\*)?")
_OPTION = re.compile(r"[a-z][a-z0-9_-]*")
_LOGIN = re.compile(r"[^\s-]\S*")
_EXCLUSIVE = ("user", "mcs", "topo")
"""Words of `--exclusive=`, as sbatch's manual page has them."""


def problems_of(env: Mapping[str, Any]) -> list[UserError]:
    """Everything that is wrong with a profile's values, apart from its time limit and its mounts."""
    return [*_value_problems(env), *_tunnel_problems(env)]


def _value_problems(env: Mapping[str, Any]) -> Iterator[UserError]:
    yield from control_characters(env, (f.name for f in FIELDS if f.one_line))
    yield from signal_problem(env.get("signal"))
    yield from stall_problem(env.get("stall_timeout"))
    yield from array_problem(as_text(env.get("array")))
    prefix = str(env.get("job_name_prefix") or "")
    if not _NAME.fullmatch(prefix):
        what = f"job_name_prefix may hold letters, digits and . _ - +, not {prefix!r}"
        yield UserError(what, key="job_name_prefix")
    for text in env.get("dependencies") or ():
        if not _JOB_ID.fullmatch(job_id(text)):
            what = f"dependencies: {shortened_value(text)} is not a Slurm job id"
            yield UserError(what, remedy='such as "123456"', key="dependencies")
    for name in env.get("container_env") or ():
        if not VARIABLE.fullmatch(name):
            yield UserError(f"container_env: {name!r} is not the name of a variable", key="container_env")
    word = env.get("exclusive")
    if isinstance(word, str) and exclusive(word) not in (True, None, *_EXCLUSIVE):
        remedy = f"true, or one of {', '.join(_EXCLUSIVE)}"
        yield UserError(f"exclusive = {word!r} is no word of Slurm's", remedy=remedy, key="exclusive")
    yield from _option_problems(list(env.get("additional_parameters") or {}))
    yield from _requeue_problems(env)


def _requeue_problems(env: Mapping[str, Any]) -> list[UserError]:
    """Slurm starts no job again that was submitted with `--no-requeue`, not for us either."""
    given = {snake(option): value for option, value in (env.get("additional_parameters") or {}).items()}
    if given.get("no_requeue") in (None, False):
        return []
    stalls = env.get("stall_timeout") and env.get("stall_action") == "requeue"
    asked = {"retries": env.get("retries"), "resume": env.get("resume"), "stall_action": stalls}
    return [
        UserError(
            f"additional_parameters.no_requeue forbids what {key} asks for: to start the job again",
            remedy=f"leave out one of the two: no_requeue or {key}",
            key="additional_parameters",
        )
        for key, wanted in asked.items()
        if wanted
    ]


def _option_problems(options: list[str]) -> Iterator[UserError]:
    spellings: dict[str, str] = {}
    for option in options:
        other = spellings.setdefault(snake(option), option)
        if problem := _option_problem(option, other):
            yield UserError(problem[0], remedy=problem[1], key="additional_parameters")


def _option_problem(option: str, other: str) -> tuple[str, str] | None:
    """What is wrong with an option's name, and how to mend it. `other`: the first spelling of it."""
    named, key = f"additional_parameters.{option}", _OWN_OPTIONS.get(snake(option))
    if not _OPTION.fullmatch(option.removeprefix("--")):
        what = f"additional_parameters: {option!r} is not the name of an sbatch option"
        return what, "write its long name in small letters, such as mail_type"
    if snake(option) in _NOT_OURS:
        return f"{named} is not for a job", _NOT_OURS[snake(option)]
    if key is not None:
        return f"{named} has a key of its own", f"set {key} instead"
    if other != option:
        return f"additional_parameters: {other!r} and {option!r} are the same option", "keep one"
    return None


def _tunnel_problems(env: Mapping[str, Any]) -> Iterator[UserError]:
    for key in ("host", "user"):
        if env.get(key) and not _LOGIN.fullmatch(str(env[key])):
            what = f"{key} may not begin with - nor hold white space: {env[key]!r}"
            yield UserError(what, remedy="write the name alone", key=key)
    if env.get("host") and not env.get("tunnel"):
        what = f'host = "{env["host"]}" but no tunnel: the job would be submitted from this machine'
        remedy = 'add tunnel = "ssh" to submit there, or tunnel = "local" to ignore host'
        yield UserError(what, remedy=remedy, key="host")
    if problem := _folder_problem(env, run_dir(env)):
        yield UserError(problem[0], remedy=problem[1], key="remote_job_dir")


def _folder_problem(env: Mapping[str, Any], folder: str) -> tuple[str, str] | None:
    named = env.get("remote_job_dir")
    if named and not folder.startswith(("/", HOME)):
        return f"remote_job_dir must be absolute or begin with ~/, not {named!r}", "such as /lustre/me/run"
    if not PATH.fullmatch(folder):
        what = f"remote_job_dir may hold letters, digits and / . _ - + = @, not {folder!r}"
        return what, "Slurm reads it in #SBATCH lines, where no shell fills in a variable; ${oc.env:USER} works"
    if MOUNTED in folder and not env.get("container_image"):
        what = f"remote_job_dir {folder!r} holds '{MOUNTED}', which NeMo-Run replaces in jobs without a container"
        return what, "name a directory without it"
    return None


def unfilled(env: Mapping[str, Any], time_key: str, time: str) -> list[Unfilled]:
    """What a submission would lack."""
    found = []
    if is_placeholder(time):
        found.append(Unfilled(f"{time_key} is still a placeholder: {time!r}", key=time_key, code=Code.PLACEHOLDER))
    if env.get("tunnel") == "ssh" and not env.get("host"):
        line = f'host is not set: tunnel = "ssh" needs the login node, such as {HOST_REMEDY}'
        found.append(Unfilled(line, key="host"))
    return found


def warnings(env: Mapping[str, Any], time: str) -> list[str]:
    """What is odd but not wrong."""
    found = []
    if env.get("mounts") and not env.get("container_image"):
        found.append("mounts are not used: the job has no container_image")
    if env.get("cpus_per_gpu") and not env.get("gpus_per_task"):
        found.append("cpus_per_gpu has no effect without gpus_per_task")
    if env.get("stall_action") == "requeue" and not env.get("stall_timeout"):
        found.append("stall_action has no effect without stall_timeout")
    if comes_at_once(env.get("signal"), time):
        found.append(f"signal = {env['signal']!r} comes when the job starts: its time limit is {time}")
    elif env.get("resume"):
        signal = signal_option(as_text(env.get("signal")), time, resume=True)
        if leaves_little(signal, time):
            found.append(
                f"resume with time = {time} makes little or no progress: its command is told to end {lead_of(signal)} s"
                " before the limit, and Slurm may do so a minute earlier; give it a longer time"
            )
    return found


_END_IF_NEVER = "kill_on_invalid_dep"
"""Has Slurm end a job that waits for one that has failed; else it stays in the queue for ever (sbatch(1))."""


def make_target(request: TargetRequest) -> SlurmTarget:
    """The Slurm part of a plan.

    Raises:
        UserError: values Slurm or NeMo-Run would misread, all of them at once.
    """
    is_build = request.kind == BUILD
    if is_build:
        request = builds.for_build(request)
    env = request.env
    found = [*problems_of(env), *(builds.build_problems(env) if is_build else ())]
    time_key, partition_key = _key_for(request, "time") or "time", _key_for(request, "partition")
    given = {**env, "time": env.get(time_key)}
    carried = carried_values(SlurmTarget, given)
    time: str = carried["time"]
    if not is_placeholder(time):
        found += time_problem(time_key, time)
    mounts = _mounts(env, builds.build_mounts(env) if is_build else (), found)
    store = _unmounted(request.store, mounts)
    raise_problems("slurm", found)
    return replace(
        SlurmTarget(**carried),
        remote_job_dir=run_dir(env),
        partition=str(env[partition_key]) if partition_key else None,
        signal=signal_option(as_text(env.get("signal")), time, resume=bool(env.get("resume"))),
        dependencies=_job_ids(env),
        additional_parameters=_additional(env),
        exclusive=exclusive(env.get("exclusive")),
        gpus_untold=exclusive(env.get("exclusive")) in _WHOLE and env.get("gpus_per_node") is None,
        mounts=(f"{store}:{store}", *mounts) if store else mounts,  # first: what lies inside it goes over it
        store=store,
        stall_timeout=stall_seconds(env.get("stall_timeout")),
        build_cache_dir=builds.cache_dir(env) if is_build else None,
        build_registries=builds.registries(env) if is_build else (),
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


def _key_for(request: TargetRequest, base: str) -> str | None:
    return deciding_key(meant_keys(base, request.mode, request.kind), request.env, request.given)


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
