"""A profile tried alone: whether a job can be made of it at all, and what a submission would refuse.

`env check` and the doctor ask here, so that they say the same; the target is `Backend.target_alone`'s for all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.errors import Problems, UserError, as_unfilled
from nemo_runspec.packaging.options import parts_of, set_options
from nemo_runspec.paths import expanded
from nemo_runspec.planning.artifacts import settled_root
from nemo_runspec.planning.environment import as_text, refuse_twice_given
from nemo_runspec.planning.limits import too_many_gpu_hours
from nemo_runspec.planning.ray_cluster import ray_problems
from nemo_runspec.plans.model import EnvVar, Resources
from nemo_runspec.plans.storage import Storage
from nemo_runspec.plans.target import Target
from nemo_runspec.profiles.common import nodes_of, processes_per_node
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.profiles.interpolate import settled_mounts
from nemo_runspec.profiles.profile import Profile
from nemo_runspec.script.node_identity import node_identity_of
from nemo_runspec.script.reserved import check_environment
from nemo_runspec.source import Source

_JOB = "a-job"
_BROUGHT = "image"
"""Stands for the image that a recipe brings."""


@dataclass(frozen=True)
class Trial:
    """What became of it.

    Args:
        refused: why no job can be made of the profile.
        lacking: what a submission would refuse. Each with its place,
            where a key of the profile says it.
        warnings: what is odd but not wrong.
    """

    refused: tuple[UserError, ...] = ()
    lacking: tuple[UserError, ...] = ()
    warnings: tuple[str, ...] = ()


def merged(profile: Profile) -> dict[str, Any]:
    """A profile's values over the default of every key, as a plan has them; no clones among its mounts."""
    mounts = [mount for mount in profile.values.get("mounts") or () if "auto_mount:" not in str(mount)]
    return {**fields_of(profile.executor).defaults(), **profile.values, "mounts": mounts}


def try_profile(profile: Profile, root: Any = None, source: Source | None = None) -> Trial:
    """Tries a profile, attached and detached.

    Args:
        root: `[artifacts] root` of its file.
        source: where it stands.
    """
    env = {**merged(profile), **settled_mounts({"mounts": profile.values.get("mounts")})}
    refused = [*_wrong_package(env), *_wrong_variables(profile, env), *_wrong_root(profile, root, source)]
    refused += [*_wrong_nodes(profile, env), *ray_problems(env)]
    trials = []
    store, image, backend = _store(profile, root), env.get("container_image"), get_backend(profile.executor)
    for mode in ("run", "batch"):
        try:
            target = backend.target_alone({**env, "container_image": image or _BROUGHT}, mode, store)
            lacking = [*_lost(profile, env, target, store, source), *_too_dear(profile, env, target)]
        except UserError as error:
            refused += error.problems if isinstance(error, Problems) else (error,)
            break
        trials.append(_tried(profile, target, lacking))
    return Trial(
        tuple(_placed(profile, error) for error in _unique(refused)),
        tuple(_unique(error for trial in trials for error in trial.lacking)),
        tuple(dict.fromkeys(line for trial in trials for line in trial.warnings)),
    )


def place_of(profile: Profile, key: str) -> str | None:
    """Where a key stands, or the table that it is in; None where no line of the file has it."""
    source = profile.sources.get(key.partition(".")[0])
    return source.place() if source else None


def _label(profile: Profile, key: str) -> str:
    source = profile.sources.get(key)
    return source.label() if source else ""


def _tried(profile: Profile, target: Target, lost: list[UserError]) -> Trial:
    lacking = [line.error(place_of(profile, line.key)) for line in map(as_unfilled, target.unfilled)]
    said = {error.where for error in lacking}  # the same key says why already
    more = (error for error in lost if error.where is None or error.where not in said)
    return Trial((), (*lacking, *more), target.warnings)


def _wrong_package(env: Mapping[str, Any]) -> Iterator[UserError]:
    """What keeps any repository from being packaged as the profile says."""
    kind = env.get("packager")
    if kind in (None, "", "none"):
        return
    try:
        parts_of(str(kind), set_options(env, str(kind)))
    except UserError as error:
        yield error


def _wrong_variables(profile: Profile, env: Mapping[str, Any]) -> Iterable[UserError]:
    """Variables that no job can be given."""
    given = (env.get("env_vars") or {}).items()
    variables = [EnvVar(name, as_text(value), _label(profile, f"env_vars.{name}")) for name, value in given]
    try:
        check_environment(variables, env.get("secrets") or ())
        refuse_twice_given(env, variables)
    except UserError as error:
        return error.problems if isinstance(error, Problems) else (error,)
    return ()


def _wrong_nodes(profile: Profile, env: Mapping[str, Any]) -> Iterator[UserError]:
    """Several nodes that nobody tells apart."""
    try:
        node_identity_of(profile.executor, nodes_of(env))
    except UserError as error:
        yield error


def _wrong_root(profile: Profile, root: Any, source: Source | None) -> Iterator[UserError]:
    """A store that no recipe with artifacts could use."""
    try:
        settled_root(str(root or ""), local=not get_backend(profile.executor).remote)
    except UserError as error:
        yield error.at(source.place() if source else None)


def _too_dear(profile: Profile, env: Mapping[str, Any], target: Target) -> Iterator[UserError]:
    """What the profile's own ceiling forbids, as far as nodes, GPUs and time are its own."""
    time, gpus = target.time, env.get("gpus_per_node") or 0
    resources = Resources(nodes_of(env), gpus, processes_per_node(env), time)
    problem = too_many_gpu_hours(env, target, resources, profile.sources.get("max_gpu_hours"))
    if problem is not None:
        yield problem


def _store(profile: Profile, root: Any) -> str:
    if not isinstance(root, str) or not root:
        return ""
    return root if get_backend(profile.executor).remote else str(expanded(root).absolute())


def _lost(
    profile: Profile, env: Mapping[str, Any], target: Target, store: str, source: Source | None
) -> Iterator[UserError]:
    """What every job of the profile would lose, whatever its recipe: outputs below NEMO_RUN_DIR, and in the store."""
    storage: Storage | None = _own_image(target, env).storage(f"/{_JOB}")
    if storage is None:
        return
    backend = get_backend(profile.executor)
    key = backend.run_dir_key or ""
    own = (env.get("env_vars") or {}).get("NEMO_RUN_DIR")
    folder = str(own or (backend.run_dir(env) if not key or env.get(key) else ""))
    yield from _of_folder("outputs", folder, storage, place_of(profile, "env_vars" if own else key))
    yield from _of_folder("artifacts", store, storage, source.place() if source else None)


def _own_image(target: Target, env: Mapping[str, Any]) -> Target:
    """The target with the profile's own image: on Slurm a job without one may have no container at all."""
    if target.container_image != _BROUGHT:
        return target
    return dataclasses.replace(target, container_image=env.get("container_image") or "")


def _of_folder(what: str, folder: str, storage: Storage, place: str | None) -> Iterator[UserError]:
    why = storage.why_lost(folder) if folder else ""
    if why:
        item = storage.example.replace("{path}", folder if folder.startswith("/") else "/data")
        yield UserError(
            f"{what} would be lost when a job ends: {folder} {why}", where=place, remedy=f"add to {storage.key}: {item}"
        )


def _placed(profile: Profile, error: UserError) -> UserError:
    return error.at(place_of(profile, error.key))


def _unique(errors: Any) -> list[UserError]:
    return list({error.what: error for error in errors}.values())
