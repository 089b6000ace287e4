"""The Ray cluster of a plan, of the profile's `ray_` keys; `jobside/ray.py` makes it, one keeper on each node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_runspec.duration import FORMS, whole_seconds
from nemo_runspec.errors import UserError
from nemo_runspec.plans import defaults
from nemo_runspec.plans.model import RayCluster, Resources
from nemo_runspec.plans.target import Target
from nemo_runspec.profiles.profile import one_or_all
from nemo_runspec.secret_names import is_secret_name

RAY_PORTS: Mapping[str, tuple[int, int]] = {"its clients": (10001, 10001), "its workers": (10002, 19999)}
"""Ports that Ray gives away by itself where nobody chooses (Ray 2.60, "Configuring Ray: ports")."""

_OWN = frozenset({"CPU", "GPU", "memory", "object_store_memory"})
_RESOURCES = ("ray_resources", "ray_worker_resources")
_PORTS = ("ray_port", "ray_dashboard_port")
_LEAST = 1024
_ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(
        ("working_dir", "py_modules", "excludes"),
        "code travels with the job, and Ray's workers stand where it does: see packager and mounts",
    ),
    **dict.fromkeys(("container", "image_uri"), "the job's image is that of all its nodes: container_image"),
}
"""What of a runtime_env has a key of its own, which holds for Ray's workers too."""


def ray_cluster(env: Mapping[str, Any], launch: str, resources: Resources, target: Target) -> RayCluster | None:
    """The cluster, None under other launchers.

    Args:
        env: the merged profile.

    Raises:
        UserError: values that no cluster can have, and a launcher that is not to be had; each with its key.
    """
    if launch != "ray":
        return None
    problems = ray_problems(env)
    if problems:
        raise one_or_all("run.env has", problems)
    cores = target.cores(resources)
    return RayCluster(
        cpus=cores.number if cores is not None and cores.told else None,
        resources=_given(env, "ray_resources"),
        worker_resources=_given(env, "ray_worker_resources"),
        runtime_env=dict(env.get("ray_runtime_env") or {}),
        start_timeout=whole_seconds(str(env.get("ray_start_timeout") or defaults.RAY_START_TIMEOUT)),
        tolerate_lost=bool(env.get("ray_tolerate_lost")),
        venv=str(env.get("ray_venv") or "").rstrip("/"),
        port=env.get("ray_port") or None,
        dashboard_port=env.get("ray_dashboard_port"),
    )


def ray_problems(env: Mapping[str, Any]) -> list[UserError]:
    """What is wrong with the `ray_` keys of a merged profile, whatever runs on it; each with its key."""
    return [*_launcher(env), *_timeout(env), *_amounts(env), *_runtime_env(env), *_ports(env)]


def _given(env: Mapping[str, Any], key: str) -> dict[str, float]:
    return {str(name): float(amount) for name, amount in (env.get(key) or {}).items()}


def _launcher(env: Mapping[str, Any]) -> Iterator[UserError]:
    if env.get("ray_launcher") == "platform":
        yield UserError(
            "ray_launcher = 'platform' is not to be had: of a cluster that the platform makes, NeMo-Run tells no exit "
            "code, keeps no log and ends nothing that failed",
            remedy='leave it out: the job\'s own nodes make a cluster among themselves ("job")',
            key="ray_launcher",
        )


def _timeout(env: Mapping[str, Any]) -> Iterator[UserError]:
    text = env.get("ray_start_timeout")
    try:
        whole_seconds(str(text or defaults.RAY_START_TIMEOUT))
    except ValueError:
        remedy = f"write it with its unit, such as {FORMS}"
        yield UserError(f"ray_start_timeout is no length of time: {text!r}", remedy=remedy, key="ray_start_timeout")


def _amounts(env: Mapping[str, Any]) -> Iterator[UserError]:
    for key in _RESOURCES:
        for name, amount in (env.get(key) or {}).items():
            if name in _OWN:
                remedy = "they follow from what the job asks for: gpus_per_node, and the keys for CPU cores"
                yield UserError(f"{key}: {name} is Ray's own", remedy=remedy, key=key)
            elif isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount <= 0:
                remedy = f"write {key} = {{ {name} = 1 }}"
                yield UserError(f"{key}.{name} must be a number above 0, not {amount!r}", remedy=remedy, key=key)


def _runtime_env(env: Mapping[str, Any]) -> Iterator[UserError]:
    key = "ray_runtime_env"
    told = env.get(key) or {}
    for name in sorted(_ELSEWHERE.keys() & told.keys()):
        yield UserError(f"{key}: {name} is not Ray's business here", remedy=_ELSEWHERE[name], key=key)
    variables = told.get("env_vars") or {}
    if not isinstance(variables, dict):
        remedy = f'write {key} = {{ env_vars = {{ NAME = "value" }} }}'
        yield UserError(f"{key}.env_vars must be a table, not {variables!r}", remedy=remedy, key=key)
        return
    for name, value in variables.items():
        if is_secret_name(str(name)):
            remedy = f'name it in secrets = ["{name}"]: Ray\'s workers have the variables of the job'
            yield UserError(
                f"{key}: {name} is a secret, and this is written down in plain text", remedy=remedy, key=key
            )
        elif not isinstance(value, str):
            remedy = f'write {name} = "{value}"'
            yield UserError(f"{key}.env_vars: {name} must be a string, as Ray wants them", remedy=remedy, key=key)


def _ports(env: Mapping[str, Any]) -> Iterator[UserError]:
    found = {key: env[key] for key in _PORTS if env.get(key)}
    for key, port in found.items():
        taken = next((what for what, (first, last) in RAY_PORTS.items() if first <= port <= last), "")
        if taken or not _LEAST <= port <= 65535:
            why = f"Ray keeps {port} for {taken}" if taken else f"{port} is no port that a job may listen at"
            yield UserError(f"{key}: {why}", remedy="leave it out: the job takes a free one", key=key)
    if len(set(found.values())) < len(found):
        yield UserError(f"{' and '.join(_PORTS)} are the same", remedy="leave them out", key=_PORTS[0])
