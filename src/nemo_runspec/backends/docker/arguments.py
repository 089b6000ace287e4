"""`additional_kwargs`: docker-py's arguments of `containers.run`, joined with ours, and made into a request by it.

docker-py takes a third of a second to import; only a profile that has such arguments pays for it. The names used of
it are those of docker-py 7.1 and 7.2.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.plans.storage import READ_ONLY, StorageMount, mounts_of_words, tables
from nemo_runspec.redact import is_secret_variable

_OURS = "nemotron reads the container's output and end, and removes it then"
REFUSED: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("auto_remove", "remove", "detach", "stdout", "stderr", "stream"), (_OURS, "leave it out")),
    "command": ("the container runs the job script", 'the command is the recipe\'s, or run_command = "…"'),
    "image": ("the image has a key of its own", 'container_image = "…"'),
    "name": ("the container is named after the job", "leave it out"),
    "restart_policy": ("a job runs once", "nemotron jobs retry starts it again"),
    "use_config_proxy": ("a plan does not depend on Docker's own settings", "name the proxies in env_vars"),
    "version": ("the engine's version is asked for", "leave it out"),
}
"""Arguments that no profile may set: why, and what to write instead."""

JOINED = ("environment", "labels", "volumes")
"""Arguments that are joined with ours, entry by entry, instead of taking their place."""

_SPECIAL = ("network", "networking_config", "ports", "volumes")
"""Arguments that docker-py spreads over several parts of a request."""


def wrong_arguments(given: Mapping[str, Any]) -> list[UserError]:
    """What docker-py would not take, and what nemotron cannot leave to a profile. Imports docker-py if there is any."""
    found = [
        UserError(
            f"additional_kwargs.{key} cannot be set: {REFUSED[key][0]}", remedy=REFUSED[key][1], key="additional_kwargs"
        )
        for key in given
        if key in REFUSED
    ]
    found += _secrets(given.get("environment"))
    if found or not given:
        return found
    known = _known()
    found = [_unknown(key, known) for key in given if key not in known]
    if found:
        return found
    try:
        body_of(dict(given))
    except _docker_errors() as error:
        return [
            UserError(
                f"additional_kwargs: {_words(error)}",
                remedy="the arguments of docker-py's containers.run",
                key="additional_kwargs",
            )
        ]
    return []


def _secrets(environment: Any) -> list[UserError]:
    """Variables that a plan, a preview and the engine would show to everybody."""
    return [
        UserError(
            f"additional_kwargs.environment: {name} holds a secret, which everyone who sees the container would see",
            remedy=f'put it into env_vars, or export it and list it: secrets = ["{name}"]',
            key="additional_kwargs",
        )
        for name, value in _table(environment).items()
        if is_secret_variable(str(name), value)
    ]


def further_mounts(given: Mapping[str, Any]) -> tuple[StorageMount, ...]:
    """What a profile's arguments mount, in docker-py's words (`target`) or the engine's (`Target`)."""
    tmpfs = given.get("tmpfs")
    return (
        *mounts_of_words(_binds(given.get("volumes"))),
        *(_storage_mount(mount) for mount in tables(given.get("mounts"))),
        *(StorageMount(str(place), lost="memory") for place in (tmpfs if isinstance(tmpfs, (Mapping, list)) else ())),
    )


def _storage_mount(mount: Mapping[str, Any]) -> StorageMount:
    plain = {str(key).lower().replace("_", ""): value for key, value in mount.items()}
    lost = "memory" if plain.get("type") == "tmpfs" else READ_ONLY if plain.get("readonly") else ""
    return StorageMount(str(plain.get("target") or "/"), str(plain.get("source") or ""), lost)


def merge_arguments(ours: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """docker-py's arguments: ours, with what a profile gives in their place, or beside them for those of `JOINED`.

    An entry point of the profile's is handed the job script's command line, as an image's own would be.
    """
    replaced = {"network"} if "network_mode" in given else set()
    if str(given.get("network_mode", given.get("network", ""))).startswith("container:"):
        replaced.add("hostname")  # it has the other container's
    ours = {key: value for key, value in ours.items() if key not in replaced}
    result = {**ours, **{key: value for key, value in given.items() if key not in JOINED}}
    for key in ("environment", "labels"):
        if key in given:
            result[key] = {**_table(ours.get(key)), **_table(given[key])}
    if "volumes" in given:
        result["volumes"] = [*ours.get("volumes", ()), *_binds(given["volumes"])]
    if "entrypoint" in given:
        entry = given["entrypoint"]
        words = shlex.split(entry) if isinstance(entry, str) else list(entry or ())
        result["entrypoint"], result["command"] = (words, ours["entrypoint"]) if words else (ours["entrypoint"], [])
    return result


def body_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The body of `POST /containers/create` for docker-py's arguments, made by docker-py; unset keys left out.

    Raises: what docker-py raises for values it does not take.
    """
    from docker.constants import DEFAULT_DOCKER_API_VERSION as VERSION
    from docker.models.containers import RUN_CREATE_KWARGS, RUN_HOST_CONFIG_KWARGS
    from docker.types import ContainerConfig, HostConfig

    left = {key: value for key, value in arguments.items() if key != "platform"}
    host = {key: left.pop(key) for key in RUN_HOST_CONFIG_KWARGS if key in left}
    create = {key: left.pop(key) for key in RUN_CREATE_KWARGS if key in left}
    network = left.pop("network", None) or host.get("network_mode")
    if "ports" in left:
        host["port_bindings"] = left["ports"]
        create["ports"] = [tuple(port.split("/", 1)) for port in left["ports"]]
    if "mounts" in host:
        host["mounts"] = [_mount(mount) for mount in host["mounts"]]
    if left.get("volumes"):
        host["binds"] = list(left["volumes"])
    if "networking_config" in left:
        create["networking_config"] = {"EndpointsConfig": left["networking_config"]}
    host_body = HostConfig(VERSION, **{**host, "network_mode": network})
    body = ContainerConfig(VERSION, create.pop("image", ""), create.pop("command", None), **create)
    return _without_unset({**body, "HostConfig": {k: v for k, v in host_body.items() if v is not None}})


def _without_unset(body: Mapping[str, Any]) -> dict[str, Any]:
    """docker-py writes every key of a container, most of them None, False or empty, all of which mean unset."""
    kept = {key: value for key, value in body.items() if value or key == "Cmd"}
    kept["Cmd"] = kept["Cmd"] or []
    if "Healthcheck" in kept:
        kept["Healthcheck"] = {key: value for key, value in kept["Healthcheck"].items() if value is not None}
    return {key: value for key, value in kept.items() if key not in ("AttachStdout", "AttachStderr")}


def _mount(mount: Any) -> Any:
    """A mount as docker-py's `types.Mount` takes it, or as the engine does (`Target`, `Source`, `Type`)."""
    from docker.types import Mount

    return Mount(**mount) if "target" in mount else mount


def _table(values: Any) -> dict[str, Any]:
    """Environment and labels may be tables or lists of `NAME=value` and `NAME`."""
    if isinstance(values, Mapping):
        return dict(values)
    return dict((*item.split("=", 1), "")[:2] for item in values or ())


def _binds(volumes: Any) -> list[str]:
    """docker-py's tables `{path: {bind, mode}}` as `source:target:mode`; strings stay."""
    if not isinstance(volumes, Mapping):
        return list(volumes or ())
    return [f"{source}:{to['bind']}:{to.get('mode', 'rw')}" for source, to in volumes.items()]


def _known() -> set[str]:
    from docker.models.containers import RUN_CREATE_KWARGS, RUN_HOST_CONFIG_KWARGS

    return {*RUN_CREATE_KWARGS, *RUN_HOST_CONFIG_KWARGS, *_SPECIAL} - set(REFUSED)


def _unknown(key: str, known: set[str]) -> UserError:
    remedy = did_you_mean(key, known) or "the arguments of docker-py's containers.run"
    return UserError(f"additional_kwargs.{key}: docker-py has no such argument", remedy=remedy, key="additional_kwargs")


def _docker_errors() -> tuple[type[Exception], ...]:
    from docker.errors import DockerException

    return (DockerException, TypeError, ValueError, KeyError, AttributeError)


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
