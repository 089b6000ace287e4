"""What a job must look like to be accepted: a schema, and what the workspace knows. Refusals name the field."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator

from labs.lepton.world import Group, Shape, World
from labs.web import HttpError

LONGEST_ARGUMENT = 131071
"""Bytes that one argument, or one variable with its name, may have: the kernel's limit for execve."""
LARGEST_JOB = 1_500_000
"""Bytes of a whole job: what the cluster's store takes."""

RESERVED_ENVS = {
    "LEPTON_WORKSPACE_ID", "LEPTON_DEPLOYMENT_NAME", "LEPTON_JOB_NAME", "LEPTON_RESOURCE_ACCELERATOR_TYPE",
    "LEPTON_WORKSPACE_ORIGIN_URL",
}  # fmt: skip
RESERVED_PATHS = {
    "/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/media", "/opt", "/proc", "/run", "/sbin", "/srv", "/sys",
    "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/var", "/sys/fs/cgroup", "/sys/kernel/security",
    "/proc/sys", "/proc/bus",
}  # fmt: skip
PRIORITIES = {f"{level}-{number * 1000}" for number, level in enumerate(["low"] * 3 + ["mid"] * 3 + ["high"] * 3, 1)}

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_TEXT = {"type": "string"}
_WORD = {"type": "string", "minLength": 1}
_COUNT = {"type": "integer", "minimum": 0}
_POSITIVE = {"type": "integer", "minimum": 1}
_FLAG = {"type": "boolean"}


def _object(required: tuple[str, ...] = (), /, **properties: Any) -> dict[str, Any]:
    known = {name.rstrip("_"): schema for name, schema in properties.items()}
    return {"type": "object", "properties": known, "required": list(required), "additionalProperties": False}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_METADATA = _object(
    id=_WORD, name=_WORD, labels={"type": "object", "additionalProperties": _TEXT}, owner=_TEXT, created_by=_TEXT,
    visibility={"enum": ["public", "private"]},
)  # fmt: skip
_ENV = _object(("name",), name=_WORD, value=_TEXT, value_from=_object(("secret_name_ref",), secret_name_ref=_WORD))
_MOUNT = _object(
    ("from", "mount_path"), path=_WORD, from_=_WORD, mount_path=_WORD,
    mount_options=_object(local_cache_size_mib=_COUNT, read_only=_FLAG),
)  # fmt: skip
_PORT = _object(
    ("container_port",), name=_TEXT, container_port={"type": "integer", "minimum": 1, "maximum": 65535},
    protocol={"enum": ["TCP", "UDP", "SCTP"]}, expose_strategies=_list({"enum": ["HostPortMapping", "INGRESS_PROXY"]}),
    host_port=_COUNT, enable_load_balancer=_FLAG,
)  # fmt: skip
_SPEC = _object(
    ("container",),
    resource_shape=_WORD,
    affinity=_object(
        allowed_providers=_list(_WORD),
        allowed_dedicated_node_groups=_list(_WORD),
        allowed_nodes_in_node_group=_list(_WORD),
    ),
    container=_object(("image", "command"), image=_WORD, command={**_list(_TEXT), "minItems": 1}, ports=_list(_PORT)),
    shared_memory_size=_POSITIVE,
    completions=_POSITIVE,
    parallelism=_POSITIVE,
    max_failure_retry=_COUNT,
    max_job_failure_retry=_COUNT,
    envs=_list(_ENV),
    mounts=_list(_MOUNT),
    storage_attachments=_list({"type": "object"}),
    image_pull_secrets=_list(_WORD),
    ttl_seconds_after_finished=_COUNT,
    intra_job_communication=_FLAG,
    user_security_context=_object(no_specific_user=_FLAG, privileged=_FLAG),
    metrics=_object(disable_pulling_from_replica=_FLAG),
    log=_object(save_termination_logs=_FLAG, enable_collection=_FLAG),
    queue_config=_object(priority_class={"enum": sorted(PRIORITIES)}, can_preempt=_FLAG, can_be_preempted=_FLAG),
    stopped=_FLAG,
    reservation_config=_object(reservation_id=_WORD, allow_burst_to_other_reservations=_FLAG),
    time_schedule=_object(start_at=_COUNT),
    segment_config=_object(("count_per_segment",), count_per_segment=_POSITIVE),
)
_JOB = Draft202012Validator(_object(("metadata", "spec"), metadata=_METADATA, spec=_SPEC))
_UPDATE = Draft202012Validator(_object(("spec",), spec=_object(("stopped",), stopped=_FLAG)))
_SECRET = _object(("name", "value"), name=_WORD, value=_WORD, tags=_list(_TEXT))
_SECRETS = Draft202012Validator({**_list(_SECRET), "minItems": 1})
_LOGIN = _object(("registry_server", "username", "password"), registry_server=_WORD, username=_WORD, password=_WORD)
_REGISTRY = Draft202012Validator(
    _object(("metadata", "spec"), metadata=_object(("name",), name=_WORD, id=_WORD), spec=_LOGIN)
)
KINDS = {"job": _JOB, "update": _UPDATE, "secrets": _SECRETS, "registry": _REGISTRY}


def fits(kind: str, value: Any) -> Any:
    """The value. Raises: HttpError 400 where it is not what the schema says."""
    for error in sorted(KINDS[kind].iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path]):
        where = ".".join(str(part) for part in error.absolute_path) or "body"
        raise HttpError(400, f"{where}: {error.message[:300]}")
    return value


def accept_job(body: bytes, job: Any, world: World) -> str:
    """The job's name. Raises: HttpError for what the workspace does not take."""
    if len(body) > LARGEST_JOB:
        raise HttpError(413, f"request is too large: {len(body)} bytes, limit {LARGEST_JOB}")
    fits("job", job)
    groups = groups_of(job["spec"], world)
    for rule in (_named(job["metadata"]), _placed(job["spec"], groups, world), _contained(job["spec"], groups, world)):
        for problem in rule:
            raise HttpError(400, problem)
    return name_of(job)


def name_of(job: Mapping[str, Any]) -> str:
    """What the client calls it."""
    return str(job["metadata"].get("id") or job["metadata"].get("name") or "")


def _named(metadata: Mapping[str, Any]) -> Iterator[str]:
    name = metadata.get("id") or metadata.get("name") or ""
    if metadata.get("name", name) != name:
        yield "metadata: id and name differ"
    if not _NAME.fullmatch(name) or name.endswith("-") or name.endswith("by-lepton"):
        yield f"metadata.id: invalid name {name!r}: lower-case letters, digits and '-', beginning with a letter"
    if len(name) > 36:
        yield f"metadata.id: invalid name {name!r}: {len(name)} characters, at most 36"
    for key, value in metadata.get("labels", {}).items():
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", key):
            yield f"metadata.labels: invalid key {key!r}"
        if not re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", value):
            yield f"metadata.labels: invalid value {value!r}"


def groups_of(spec: Mapping[str, Any], world: World) -> list[Group]:
    """The node groups that a job names by their ids."""
    ids = spec.get("affinity", {}).get("allowed_dedicated_node_groups", [])
    return [group for id in ids if (group := world.group(id))]


def _placed(spec: Mapping[str, Any], groups: list[Group], world: World) -> Iterator[str]:
    affinity = spec.get("affinity", {})
    for id in affinity.get("allowed_dedicated_node_groups", []):
        if world.group(id) is None:
            yield f"affinity.allowed_dedicated_node_groups: no node group with id {id!r}"
    yield from _nodes(affinity.get("allowed_nodes_in_node_group", []), groups)
    yield from _shaped(spec.get("resource_shape"), groups, world)
    yield from _queued(spec.get("queue_config"), groups)
    reservation = spec.get("reservation_config", {}).get("reservation_id")
    if reservation and not any(reservation in group.reservations for group in groups):
        yield f"reservation_config.reservation_id: no reservation {reservation!r} in the node groups"
    if spec.get("completions", 1) != spec.get("parallelism", 1):
        yield "completions: differs from parallelism"


def _nodes(ids: Iterable[str], groups: list[Group]) -> Iterator[str]:
    known = {node.id for group in groups for node in group.nodes}
    for id in ids:
        if id not in known:
            yield f"affinity.allowed_nodes_in_node_group: no node {id!r} in the node groups"


def _shaped(id: str | None, groups: list[Group], world: World) -> Iterator[str]:
    shape = world.shape(id or "")
    if shape is None or "job" not in shape.listable_in:
        yield f"resource_shape: {id!r} is no resource shape for jobs"
    elif groups and not any(group.id in shape.groups for group in groups):
        yield f"resource_shape: {id!r} is not offered by the node groups"


def _queued(config: Mapping[str, Any] | None, groups: list[Group]) -> Iterator[str]:
    if config is None:
        return
    if not groups or not all(group.quota for group in groups):
        yield "queue_config: needs a dedicated node group with quotas"
    if (config.get("can_preempt") or config.get("can_be_preempted")) and not config.get("priority_class"):
        yield "queue_config.priority_class: needed for preemption"


def _contained(spec: Mapping[str, Any], groups: list[Group], world: World) -> Iterator[str]:
    for index, word in enumerate(spec["container"]["command"]):
        if len(word.encode()) > LONGEST_ARGUMENT or "\0" in word:
            yield f"container.command.{index}: argument list too long: {len(word.encode())} bytes"
    yield from _environment(spec.get("envs", []), world)
    yield from _mounted(spec.get("mounts", []), groups, world)
    for name in spec.get("image_pull_secrets", []):
        if name not in world.registries:
            yield f"image_pull_secrets: no image pull secret {name!r}"


def _environment(envs: list[dict[str, Any]], world: World) -> Iterator[str]:
    for env in envs:
        name, value = env["name"], env.get("value")
        secret = env.get("value_from", {}).get("secret_name_ref")
        if not re.fullmatch(r"[A-Za-z_.-][A-Za-z0-9_.-]*", name) or name in RESERVED_ENVS:
            yield f"envs: {name!r} is reserved or no name of a variable"
        if (value is None) == (secret is None):
            yield f"envs: {name}: either value or value_from"
        if secret is not None and secret not in world.secrets:
            yield f"envs: {name}: no secret {secret!r}"
        if len(f"{name}={value or ''}".encode()) > LONGEST_ARGUMENT or "\0" in (value or ""):
            yield f"envs: {name}: value too long"
    yield from (f"envs: {name} is there twice" for name in _twice(env["name"] for env in envs))


def _mounted(mounts: list[dict[str, Any]], groups: list[Group], world: World) -> Iterator[str]:
    there = {volume.source for group in groups or world.groups for volume in group.volumes} | {"node-local"}
    for mount in mounts:
        path, target, source = mount.get("path", "/"), mount["mount_path"], mount["from"]
        place = posixpath.normpath(f"/{target.lstrip('/')}")
        if not target.startswith("/") or place in RESERVED_PATHS or place.startswith("/proc/"):
            yield f"mounts: mount_path {target!r} is reserved or not absolute"
        if not path.startswith("/") or ".." in path.split("/"):
            yield f"mounts: path {path!r} is not absolute"
        if source not in there:
            yield f"mounts: from {source!r} is no volume of the node groups"
        elif (volume := world.sources[source]) and not any(below(path, prefix) for prefix in volume.prefixes):
            yield f"mounts: no permission for {path!r} of volume {volume.name!r}"
    yield from (f"mounts: mount_path {path!r} is there twice" for path in _twice(m["mount_path"] for m in mounts))


def below(path: str, prefix: str) -> bool:
    """Whether the path is the prefix or lies in it."""
    return f"{path.rstrip('/')}/".startswith(f"{prefix.rstrip('/')}/")


def _twice(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def needs(shape: Shape | None) -> int:
    """Accelerators of one replica."""
    return shape.accelerator_num if shape else 0
