"""A job's spec in the words of Lepton's API. What only the platform knows is a named hole. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nemo_runspec.backends.lepton.fields import LeptonTarget

NODE_GROUP, RESOURCE_SHAPE, CARGO, MOUNT = "NODE_GROUP", "RESOURCE_SHAPE", "CARGO", "MOUNT"
IMAGE_PULL_SECRET = "IMAGE_PULL_SECRET"

DEFAULT_PRIORITY = "mid-4000"

_NVIDIA_REGISTRY = "nvcr.io/"


class Hole(str):
    """A value that is filled in later; in a list it may become any number of items, none included."""

    __slots__ = ()


def make_spec(target: LeptonTarget, nodes: int, secrets: Iterable[str], command: Sequence[str]) -> dict[str, Any]:
    """The spec before `custom_spec`. Keys that hold nothing are left out, as Lepton's own client does.

    Args:
        secrets: variables of the job whose values become secrets of the workspace.
    """
    spec = {
        "resource_shape": target.resource_shape or Hole(RESOURCE_SHAPE),
        "affinity": {"allowed_dedicated_node_groups": [Hole(NODE_GROUP)]} if target.node_group else None,
        "container": {"image": target.container_image, "command": list(command)},
        "completions": nodes,
        "parallelism": nodes,
        "intra_job_communication": nodes > 1,
        # A failed command is not to be run again behind our back; what was evicted is submitted again by us.
        "max_failure_retry": 0,
        "max_job_failure_retry": 0,
        "shared_memory_size": target.shared_memory_size,
        "envs": _variables(target, secrets),
        "mounts": _mounts(target),
        "image_pull_secrets": _pull_secrets(target),
        "ttl_seconds_after_finished": target.ttl,
        "log": {"enable_collection": True, "save_termination_logs": True},
        "queue_config": _queue(target),
        "reservation_config": {"reservation_id": target.node_reservation} if target.node_reservation else None,
    }
    return {key: value for key, value in spec.items() if value not in (None, [], {})}


def secret_hole(name: str) -> Hole:
    """Stands for the name of the workspace's secret that a variable's value is put into."""
    return Hole(f"SECRET_{name}")


def source_hole(number: int) -> Hole:
    """Stands for `from` of a mount that the profile does not say."""
    return Hole(f"MOUNT_{number}_FROM")


def wants_pull_secret(target: LeptonTarget) -> bool:
    """True for an image of NVIDIA's registry, where the profile names no secret for it."""
    return target.container_image.startswith(_NVIDIA_REGISTRY) and not target.image_pull_secrets


def merged(ours: Any, theirs: Any, at: str = "") -> tuple[Any, list[str]]:
    """Two trees as one, theirs over ours; and the paths where a value of ours was replaced by another.

    Lists of tables with a name (`envs`) or a place (`mounts`) are joined by it, other lists are replaced.
    """
    if isinstance(ours, dict) and isinstance(theirs, Mapping):
        return _merged_tables(ours, theirs, at)
    identity = _identity(ours, theirs) if isinstance(ours, list) and isinstance(theirs, list) else None
    if identity is not None:
        return _merged_lists(ours, theirs, identity, at)
    return theirs, ([at] if ours != theirs else [])


def _variables(target: LeptonTarget, secrets: Iterable[str]) -> list[dict[str, Any]]:
    """Only references to secrets: what is not secret is exported by the job's own script."""
    named = {name: secret_hole(name) for name in secrets}
    return [{"name": k, "value_from": {"secret_name_ref": ref}} for k, ref in {**named, **target.secret_vars}.items()]


def _mounts(target: LeptonTarget) -> list[Any]:
    given = [{**mount, "from": mount.get("from") or source_hole(n)} for n, mount in enumerate(target.mounts)]
    return [*([Hole(MOUNT)] if target.mounted_at else []), *given]


def _pull_secrets(target: LeptonTarget) -> list[str]:
    return [Hole(IMAGE_PULL_SECRET)] if wants_pull_secret(target) else list(target.image_pull_secrets)


def _queue(target: LeptonTarget) -> dict[str, Any]:
    """The queue's settings; preemption goes with a priority, of which the middle one is Lepton's own default."""
    preemption = target.can_preempt or target.can_be_preempted
    config = {
        "priority_class": target.queue_priority or (DEFAULT_PRIORITY if preemption else None),
        "can_preempt": target.can_preempt or None,
        "can_be_preempted": target.can_be_preempted or None,
    }
    return {key: value for key, value in config.items() if value is not None}


def _merged_tables(ours: dict[str, Any], theirs: Mapping[str, Any], at: str) -> tuple[dict[str, Any], list[str]]:
    result, replaced = dict(ours), []
    for key, value in theirs.items():
        if key in ours:
            result[key], below = merged(ours[key], value, f"{at}.{key}" if at else str(key))
            replaced += below
        else:
            result[key] = value
    return result, replaced


def _merged_lists(ours: list[Any], theirs: Sequence[Any], key: str, at: str) -> tuple[list[Any], list[str]]:
    given = {item.get(key): item for item in theirs}
    known = [item for item in ours if not isinstance(item, Hole)]
    replaced = [f"{at}[{item[key]}]" for item in known if item[key] in given and given[item[key]] != item]
    kept = [item for item in ours if isinstance(item, Hole) or item[key] not in given]
    return [*kept, *theirs], replaced


def _identity(ours: list[Any], theirs: list[Any]) -> str | None:
    """The key that tells the tables of two lists apart, None where there is none. What is filled in later has any."""
    known = [item for item in ours if not isinstance(item, Hole)]
    tables = [*known, *theirs] if ours else []
    for key in ("name", "mount_path"):
        if tables and all(isinstance(item, Mapping) and key in item for item in tables):
            return key
    return None
