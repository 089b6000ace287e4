"""What a Lepton profile may say, and the target a plan gets from it. Pure: Lepton is not asked for anything.

The arguments of NeMo-Run's `LeptonExecutor` named here are those of 0.11.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.checks import (
    VARIABLE,
    below,
    control_characters,
    flags,
    lists,
    raise_problems,
    tables,
    texts,
)
from nemo_runspec.errors import UserError
from nemo_runspec.field import Field
from nemo_runspec.profiles.common import adopt

_EXAMPLE = '{ path = "/data", mount_path = "/data", from = "node-nfs:my-volume" }'

FIELDS: tuple[Field, ...] = (
    adopt("container_image", required=True, nemo_run="container_image"),
    Field(
        "nemo_run_dir",
        "str",
        "Directory for jobs, outputs and caches, on one of mounts.",
        required=True,
        nemo_run="nemo_run_dir",
    ),
    adopt("nodes", nemo_run="nodes"),
    adopt("gpus_per_node", nemo_run="gpus_per_node"),
    adopt("nproc_per_node", nemo_run="nprocs_per_node"),
    Field(
        "resource_shape",
        "str",
        "Resource shape of a node, such as gpu.8xh100-sxm.",
        default="",
        nemo_run="resource_shape",
    ),
    Field("node_group", "str", "Node group, by name.", default="", nemo_run="node_group"),
    Field("node_reservation", "str", "Reservation, by id.", default="", nemo_run="node_reservation"),
    Field("shared_memory_size", "positive", "Shared memory in MiB.", default=65536, nemo_run="shared_memory_size"),
    adopt(
        "mounts",
        help="Storage of the job: { path, mount_path, from }, where from names the node group's volume, such as "
        "node-nfs:my-volume. Joined with the recipe's own.",
        nemo_run="mounts",
    ),
    Field("secret_vars", "table[str]", "Variable of the job = name of a Lepton secret.", nemo_run="secret_vars"),
    Field(
        "image_pull_secrets", "list[str]", "Lepton secrets for registries.", default=[], nemo_run="image_pull_secrets"
    ),
    Field(
        "pre_launch_commands",
        "list[str]",
        "Shell commands before the job script, in a shell of their own.",
        default=[],
        nemo_run="pre_launch_commands",
    ),
    Field(
        "can_be_preempted",
        "bool",
        "Jobs of higher priority may take the nodes.",
        default=False,
        nemo_run="can_be_preempted",
    ),
    Field(
        "can_preempt", "bool", "The job may take the nodes of lower priority.", default=False, nemo_run="can_preempt"
    ),
    Field("queue_priority", "str", "Priority class, such as mid-4000.", nemo_run="queue_priority"),
    Field(
        "head_resource_shape",
        "str",
        "Resource shape of a Ray cluster's head; by default resource_shape.",
        default="",
        nemo_run="head_resource_shape",
    ),
    Field("ray_version", "str", "Ray version of a Ray cluster; by default Lepton's.", nemo_run="ray_version"),
    Field(
        "custom_spec",
        "table",
        "Further keys of the job's spec. NeMo-Run 0.11.1 takes them and does not send them.",
        nemo_run="custom_spec",
    ),
    Field(
        "launched_from_cluster",
        "bool",
        "nemotron itself runs in the cluster. NeMo-Run 0.11.1 takes this and does not use it.",
        default=False,
        nemo_run="launched_from_cluster",
    ),
    adopt("packager", nemo_run="packager"),
)

EXCLUDED: Mapping[str, str] = {
    "env_vars": "the job script exports them",
    "launcher": "the job script holds the launcher's command line",
    "retries": "NeMo-Run does not hand it to Lepton",
    "experiment_id": "NeMo-Run's experiments set it",
    "job_dir": "NeMo-Run's experiments set it",
}
"""Arguments of NeMo-Run's executor that no profile key fills, and why."""

_TEXTS = ("container_image", "nemo_run_dir", "resource_shape", "node_group", "node_reservation", "head_resource_shape")
_MOUNT_KEYS = frozenset({"path", "mount_path", "from", "mount_options"})


@dataclass(frozen=True, slots=True)
class LeptonTarget:
    """A Lepton job beyond what every plan says. Required keys a profile lacks are empty.

    Args:
        shared_memory_size: MiB.
        mounts: tables with `path`, `mount_path` and mostly `from`.
        secret_vars: variable → name of the workspace's secret; never a value.
        warnings: what is odd but not wrong.
    """

    container_image: str
    nemo_run_dir: str
    resource_shape: str = ""
    node_group: str = ""
    node_reservation: str = ""
    head_resource_shape: str = ""
    shared_memory_size: int = 65536
    mounts: tuple[dict[str, Any], ...] = ()
    secret_vars: dict[str, str] = field(default_factory=dict)
    image_pull_secrets: tuple[str, ...] = ()
    pre_launch_commands: tuple[str, ...] = ()
    can_be_preempted: bool = False
    can_preempt: bool = False
    queue_priority: str | None = None
    ray_version: str | None = None
    custom_spec: dict[str, Any] = field(default_factory=dict)
    launched_from_cluster: bool = False
    warnings: tuple[str, ...] = ()


def make_target(request: TargetRequest) -> LeptonTarget:
    """The Lepton part of a plan.

    Raises:
        UserError: values Lepton or NeMo-Run would misread, all of them at once.
    """
    env = request.env
    mounts = list(env.get("mounts") or ())
    problems = [*control_characters(env, _TEXTS), *_mount_problems(mounts)]
    problems += [
        UserError(f"secret_vars: {name!r} is not the name of a variable", remedy='such as { HF_TOKEN = "my-secret" }')
        for name in env.get("secret_vars") or {}
        if not VARIABLE.fullmatch(name)
    ]
    raise_problems("lepton", problems)
    return LeptonTarget(
        mounts=tuple(dict(mount) for mount in mounts),
        shared_memory_size=env.get("shared_memory_size") or 65536,
        queue_priority=env.get("queue_priority") or None,
        ray_version=env.get("ray_version") or None,
        warnings=tuple(_warnings(env, mounts)),
        **texts(env, *_TEXTS, unset=""),
        **tables(env, "secret_vars", "custom_spec"),
        **lists(env, "image_pull_secrets", "pre_launch_commands"),
        **flags(env, "can_be_preempted", "can_preempt", "launched_from_cluster"),
    )


def _mount_problems(mounts: list[Any]) -> list[UserError]:
    problems = []
    for number, mount in enumerate(mounts):
        wrong = _wrong_with(mount)
        if wrong:
            problems.append(UserError(f"mounts[{number}] {wrong}: {mount!r}", remedy=f"write mounts = [{_EXAMPLE}]"))
    return problems


def _wrong_with(mount: Any) -> str | None:
    if not isinstance(mount, Mapping):
        return "is not a mount of executor 'lepton'"
    unknown = sorted(set(mount) - _MOUNT_KEYS)
    if unknown:
        return f"has an unknown key {unknown[0]!r}"
    for key in ("path", "mount_path"):
        if not isinstance(mount.get(key), str) or not mount[key].startswith("/"):
            return f"needs an absolute {key}"
    return None


def _warnings(env: Mapping[str, Any], mounts: list[Any]) -> list[str]:
    found = [
        f"mounts[{number}] names no volume: Lepton wants from, such as node-nfs:my-volume"
        for number, mount in enumerate(mounts)
        if not mount.get("from")
    ]
    folder = env.get("nemo_run_dir")
    if folder and not any(below(folder, mount["mount_path"]) for mount in mounts):
        found.append(f"nemo_run_dir {folder!r} is on none of mounts: what a job writes there is lost when it ends")
    return found
