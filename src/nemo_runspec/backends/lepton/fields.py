"""What a Lepton profile may say, and the target a plan gets from it. Pure: Lepton is not asked for anything.

The arguments of NeMo-Run's `LeptonExecutor` named here are those of 0.11.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.checks import control_characters, flags, lists, raise_problems, texts
from nemo_runspec.backends.cloud.fields import FIELDS as CLOUD_FIELDS
from nemo_runspec.backends.cloud.fields import CloudTarget, cloud_problems, cloud_values, plain_secrets
from nemo_runspec.backends.lepton import rules
from nemo_runspec.backends.lepton.spec import make_spec, merged
from nemo_runspec.backends.storage import READ_ONLY, Storage, StorageMount, tables
from nemo_runspec.duration import whole_seconds
from nemo_runspec.errors import Unfilled
from nemo_runspec.field import Field
from nemo_runspec.profiles.common import adopt

DEFAULT_TTL = "3d"

_OWN: tuple[Field, ...] = (
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
        "Resource shape of a node, such as gpu.8xh100-sxm; by default the workspace's only one with gpus_per_node.",
        default="",
        nemo_run="resource_shape",
    ),
    Field("node_group", "str", "Node group, by name or id.", default="", nemo_run="node_group"),
    Field("node_reservation", "str", "Reservation, by id.", default="", nemo_run="node_reservation"),
    Field("shared_memory_size", "positive", "Shared memory in MiB.", default=65536, nemo_run="shared_memory_size"),
    adopt(
        "mounts",
        help="Storage of the job: { path, mount_path, from }, where from names the node group's volume, such as "
        "node-nfs:my-volume; it may be left out where there is one. Where nemo_run_dir is on none of them, the node "
        "group's volume is mounted there. Joined with the recipe's own.",
        nemo_run="mounts",
    ),
    Field(
        "image_pull_secrets",
        "list[str]",
        "Lepton secrets for registries; by default one is made of NGC_KEY for an image of nvcr.io.",
        default=[],
        nemo_run="image_pull_secrets",
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
        "ttl",
        "str",
        "How long Lepton keeps a job that is over, its logs included, such as 3d; 10m at least.",
        default=DEFAULT_TTL,
    ),
    Field(
        "head_resource_shape",
        "str",
        "Resource shape of a Ray cluster's head; by default resource_shape.",
        default="",
        nemo_run="head_resource_shape",
        never_sent="it is an argument of NeMo-Run's own executor alone",
    ),
    Field(
        "ray_version",
        "str",
        "Ray version of a Ray cluster; by default Lepton's.",
        nemo_run="ray_version",
        never_sent="it is an argument of NeMo-Run's own executor alone",
    ),
    Field(
        "custom_spec",
        "table",
        "Further keys of the job's spec, merged into it last; what they replace is said.",
        nemo_run="custom_spec",
    ),
    Field(
        "launched_from_cluster",
        "bool",
        "nemotron itself runs in the cluster. NeMo-Run 0.11.1 takes this and does not use it.",
        default=False,
        nemo_run="launched_from_cluster",
        never_sent="it is an argument of NeMo-Run's own executor alone",
    ),
    adopt("packager", nemo_run="packager"),
)

_NEMO_RUN_HAS = frozenset({"secret_vars"})

FIELDS: tuple[Field, ...] = (
    *_OWN,
    *(replace(field, nemo_run=field.name) if field.name in _NEMO_RUN_HAS else field for field in CLOUD_FIELDS),
)

_TEXTS = ("container_image", "nemo_run_dir", "resource_shape", "node_group", "node_reservation", "head_resource_shape")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeptonTarget(CloudTarget):
    """A Lepton job beyond what every cloud job says. Required keys a profile lacks are empty.

    Args:
        shared_memory_size: MiB. ttl: seconds.
        mounts: tables with `path`, `mount_path` and mostly `from`; as the profile gives them.
        mounted_at: where the node group's volume is mounted besides, as nemo_run_dir is on none of them; else ''.
        node_group: an id or a name.
    """

    nemo_run_dir: str
    resource_shape: str = ""
    node_group: str = ""
    node_reservation: str = ""
    head_resource_shape: str = ""
    shared_memory_size: int = 65536
    ttl: int = 259200
    mounts: tuple[dict[str, Any], ...] = ()
    mounted_at: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    can_be_preempted: bool = False
    can_preempt: bool = False
    queue_priority: str | None = None
    ray_version: str | None = None
    launched_from_cluster: bool = False

    def storage(self, job_dir: str) -> Storage:
        """As `Target.storage`: the mounts of the job's spec, those of `custom_spec` among them."""
        spec, _ = merged(make_spec(self, 1, (), ()), self.custom_spec)
        ours = (StorageMount(self.mounted_at),) if self.mounted_at else ()
        return Storage(
            (*ours, *(_storage_mount(mount) for mount in tables(spec.get("mounts")))),
            example='{ path = "/…", mount_path = "{path}", from = "node-nfs:VOLUME" }',
            uploaded=self.outputs,
            fetched=tuple(self.inputs),
        )


def make_target(request: TargetRequest) -> LeptonTarget:
    """The Lepton part of a plan.

    Raises:
        UserError: values Lepton or NeMo-Run would misread, all of them at once.
    """
    env = request.env
    mounts = list(env.get("mounts") or ())
    problems = [*control_characters(env, _TEXTS), *rules.problems(env, request.name), *cloud_problems(env)]
    problems += plain_secrets(env.get("custom_spec") or {}, "envs", "my-secret")
    raise_problems("lepton", problems)
    folder = str(env.get("nemo_run_dir") or "")
    target = LeptonTarget(
        mounts=tuple(dict(mount) for mount in mounts),
        shared_memory_size=env.get("shared_memory_size") or 65536,
        ttl=whole_seconds(str(env.get("ttl") or DEFAULT_TTL)),
        queue_priority=env.get("queue_priority") or None,
        ray_version=env.get("ray_version") or None,
        **texts(env, *_TEXTS, unset=""),
        **lists(env, "image_pull_secrets"),
        **flags(env, "can_be_preempted", "can_preempt", "launched_from_cluster"),
        **cloud_values(env),
    )
    at = "" if target.storage("").mount_of(folder) else mounting_point(folder)
    target = replace(target, mounted_at=at, shared=bool(at) or _holds(target, folder))
    return replace(
        target,
        unfilled=_apart(target, env.get("nodes") or 1),
        warnings=(
            *_mount_warnings(target, mounts),
            *_ray_warnings(env),
            *_group_warnings(env),
            *_custom_warnings(env, target),
        ),
    )


_KERNEL = ("/sys/", "/dev/")
"""Below these nothing is mounted but what a profile names itself."""


def mounting_point(folder: str) -> str:
    """Where the node group's volume is mounted so that a folder lies on it: `/mnt/NAME`, else the folder itself.

    Empty where it cannot be mounted there.
    """
    if not folder.startswith("/"):
        return ""
    parts = rules.place_of(folder).split("/")
    place = "/".join(parts[:3]) if parts[1] == "mnt" else "/".join(parts)
    return "" if rules.is_reserved(place) or place == "/mnt" or place.startswith(_KERNEL) else place


def no_meeting(target: LeptonTarget, nodes: int) -> str:
    """Why the nodes of a job cannot meet, '' where they can."""
    if target.shared or nodes < 2 or not target.nemo_run_dir:
        return ""
    return f"{nodes} nodes share no directory"


def _holds(target: LeptonTarget, folder: str) -> bool:
    """Whether a folder is on one of the mounts, and may be written there."""
    return bool(folder) and not replace(target, outputs=()).storage("").why_lost(folder)


def _storage_mount(mount: Mapping[str, Any]) -> StorageMount:
    options = mount.get("mount_options")
    lost = READ_ONLY if isinstance(options, Mapping) and options.get("read_only") else ""
    return StorageMount(str(mount.get("mount_path") or "/"), str(mount.get("path") or ""), lost)


def _apart(target: LeptonTarget, nodes: int) -> tuple[Unfilled, ...]:
    why = no_meeting(target, nodes)
    where = f"nemo_run_dir {target.nemo_run_dir!r} {target.storage('').why_lost(target.nemo_run_dir)}"
    return (Unfilled(f"{where}: {why}", key="nemo_run_dir"),) if why else ()


def _mount_warnings(target: LeptonTarget, mounts: Sequence[Mapping[str, Any]]) -> list[str]:
    found = [
        f"mounts[{number}] names no volume: the node group is asked which one has {mount['path']}; where several do, "
        'write from, such as from = "node-nfs:my-volume"'
        for number, mount in enumerate(mounts)
        if not mount.get("from")
    ]
    folder, at = target.nemo_run_dir, target.mounted_at
    if at:
        found.append(f"nemo_run_dir {folder!r} is on none of mounts: the node group's volume will be mounted at {at}")
    elif folder and not target.shared:
        why = replace(target, outputs=()).storage("").why_lost(folder)
        found.append(f"nemo_run_dir {folder!r} {why}: what a job writes there is lost when it ends")
    return found


def _ray_warnings(env: Mapping[str, Any]) -> list[str]:
    given = [key for key in ("ray_version", "head_resource_shape") if env.get(key)]
    if not given:
        return []
    return [f"{', '.join(given)}: only for scripts that use NeMo-Run themselves; here Ray runs on the job's own nodes"]


def _group_warnings(env: Mapping[str, Any]) -> list[str]:
    """What Lepton takes only with a node group: queues and reservations are a node group's own."""
    keys = ("queue_priority", "can_preempt", "can_be_preempted", "node_reservation")
    given = [key for key in keys if env.get(key)]
    return (
        [f"{', '.join(given)}: Lepton takes this only with a node_group"] if given and not env.get("node_group") else []
    )


def _custom_warnings(env: Mapping[str, Any], target: LeptonTarget) -> list[str]:
    """What `custom_spec` replaces of the job's spec, each key by its path."""
    if not target.custom_spec:
        return []
    spec = make_spec(target, env.get("nodes") or 1, env.get("secrets") or (), ())
    replaced = merged(spec, target.custom_spec).replaced
    return [f"custom_spec replaces {path} of the job's spec" for path in replaced]
