"""The keys of a Lepton profile, and the target that a plan gets from them. Pure: Lepton is not asked for anything.

The arguments of NeMo-Run's `LeptonExecutor` named here are those of 0.11.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.cloud.fields import (
    NEMO_RUN_ALONE,
    SECRET_VARS,
    CloudTarget,
    cloud_keys,
    duration,
    make_cloud_target,
    text_argument,
)
from nemo_runspec.backends.cloud.request import CreateRequest
from nemo_runspec.backends.lepton import rules
from nemo_runspec.backends.lepton.payload import LISTS, VARIABLES, make_request, make_spec
from nemo_runspec.backends.lepton.shape_names import gpus_in
from nemo_runspec.errors import Unfilled
from nemo_runspec.field import SAME_NAME, Field, argument, key
from nemo_runspec.placeholders import Placeholder
from nemo_runspec.plans.model import Plan, Resources
from nemo_runspec.plans.storage import READ_ONLY, StorageMount, tables
from nemo_runspec.profiles.common import adopt, nodes_of
from nemo_runspec.topics import CODE, COMMAND, CONTAINER, FILES, PLACE, SIZE, TROUBLE
from nemo_runspec.transport.reading import count

_MOUNT_KEYS = (
    Field("path", "str", "Folder of the volume, absolute."),
    Field("mount_path", "str", "Where jobs see it, absolute."),
    Field("from", "str", "The node group's volume, such as node-nfs:my-volume."),
    Field("mount_options", "table", "As Lepton takes them, such as { read_only = true }."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeptonTarget(CloudTarget):
    """A Lepton job beyond what every cloud job says. Required keys a profile lacks are empty.

    NeMo-Run's executor takes a node group by its name only, wants `from` in every mount, and sends no `custom_spec`.

    Args:
        shared_memory_size: MiB.
        ttl: seconds.
        mounts: tables with `path`, `mount_path` and mostly `from`; as the profile gives them.
        mounted_at: where the node group's volume is mounted besides, as nemo_run_dir is on none of them; else ''.
        node_group: an id or a name.
    """

    spec_variables, spec_lists, secret_example = VARIABLES, LISTS, "my-secret"
    nemo_run_executor = "LeptonExecutor"
    mount_example = '{ path = "/…", mount_path = "{path}", from = "node-nfs:VOLUME" }'

    nemo_run_dir: str = text_argument(
        "Directory for jobs, outputs and caches, on one of mounts.", required=True, topic=FILES
    )
    resource_shape: str = text_argument(
        "Resource shape of a node, such as gpu.8xh100-sxm; by default the workspace's only one with gpus_per_node.",
        default="",
        topic=PLACE,
        asks_gpus=True,
    )
    node_group: str = text_argument("Node group, by name or id.", default="", topic=PLACE)
    node_reservation: str = text_argument("Reservation, by id.", default="", topic=PLACE)
    shared_memory_size: int = argument("positive", "Shared memory in MiB.", default=65536, topic=SIZE)
    mounts: tuple[dict[str, Any], ...] = key(
        adopt(
            "mounts",
            help="Storage of the job: { path, mount_path, from }, where from names the node group's volume, such as "
            "node-nfs:my-volume; it may be left out where there is one. Where nemo_run_dir is on none of them, the "
            "node group's volume is mounted there. Joined with the recipe's own.",
            nemo_run=SAME_NAME,
            inner=_MOUNT_KEYS,
        )
    )
    image_pull_secrets: tuple[str, ...] = argument(
        "list[str]",
        "Lepton secrets for registries; by default one is made of NGC_KEY for an image of nvcr.io.",
        default=[],
        topic=CONTAINER,
    )
    pre_launch_commands: tuple[str, ...] = argument(
        "list[str]",
        "Shell commands before the job script, in a shell of their own.",
        default=[],
        topic=COMMAND,
        verbatim=True,
    )
    can_be_preempted: bool = argument(
        "bool", "Jobs of higher priority may take the nodes.", default=False, topic=TROUBLE
    )
    can_preempt: bool = argument("bool", "The job may take the nodes of lower priority.", default=False, topic=TROUBLE)
    queue_priority: str | None = argument("str", "Priority class, such as mid-4000.", topic=TROUBLE)
    ttl: int = duration(
        "How long Lepton keeps a job that is over, its logs included, such as 3d; 10m at least.",
        default="3d",
        topic=SIZE,
    )
    head_resource_shape: str = text_argument(
        "Resource shape of a Ray cluster's head; by default resource_shape.",
        default="",
        never_sent=NEMO_RUN_ALONE,
        topic=PLACE,
    )
    ray_version: str | None = argument(
        "str", "Ray version of a Ray cluster; by default Lepton's.", never_sent=NEMO_RUN_ALONE, topic=COMMAND
    )
    launched_from_cluster: bool = argument(
        "bool",
        "nemotron itself runs in the cluster. NeMo-Run 0.11.1 takes this and does not use it.",
        default=False,
        never_sent=NEMO_RUN_ALONE,
        topic=CODE,
    )
    secret_vars: dict[str, str] = key(replace(SECRET_VARS, nemo_run=SAME_NAME))  # noqa: RUF009 (a field)
    mounted_at: str = ""

    def request(self, plan: Plan) -> CreateRequest:
        """As `CloudTarget.request`."""
        return make_request(self, plan)

    def gpus(self, resources: Resources) -> int | None:
        """As `Target.gpus`: those of the shape, where one is named, whatever the profile says besides."""
        spec = self.merged(make_spec(self, resources.nodes, (), ())).spec
        shape, pods = spec["resource_shape"], count(spec.get("completions")) or resources.nodes
        if isinstance(shape, Placeholder):
            return pods * resources.gpus_per_node
        named = gpus_in(shape)
        return (pods * resources.gpus_per_node or None) if named is None else pods * named

    def spec_mounts(self) -> tuple[StorageMount, ...]:
        """As `CloudTarget.spec_mounts`, with the node group's volume where it is mounted besides."""
        ours = (StorageMount(self.mounted_at),) if self.mounted_at else ()
        spec = self.merged(make_spec(self, 1, (), ())).spec
        return (*ours, *(_storage_mount(mount) for mount in tables(spec.get("mounts"))))


FIELDS: tuple[Field, ...] = cloud_keys(LeptonTarget)


def make_target(request: TargetRequest) -> LeptonTarget:
    """The Lepton part of a plan.

    Raises:
        UserError: values Lepton or NeMo-Run would misread, all of them at once.
    """
    env = request.env
    target = make_cloud_target("lepton", LeptonTarget, env, rules.problems(env, request.name))
    folder, nodes = target.nemo_run_dir, nodes_of(env)
    at = "" if target.storage("").mount_of(folder) else mounting_point(folder)
    target = replace(target, mounted_at=at, shared=bool(at) or not target.why_lost(folder))
    why = no_meeting(target, nodes)
    apart = Unfilled(f"nemo_run_dir {folder!r} {target.why_lost(folder)}: {why}", key="nemo_run_dir")
    warnings = (*_mount_warnings(target), *_key_warnings(env), *_custom_warnings(target, env))
    return replace(target, unfilled=(apart,) if why else (), warnings=warnings)


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


def _storage_mount(mount: Mapping[str, Any]) -> StorageMount:
    options = mount.get("mount_options")
    lost = READ_ONLY if isinstance(options, Mapping) and options.get("read_only") else ""
    return StorageMount(str(mount.get("mount_path") or "/"), str(mount.get("path") or ""), lost)


def _mount_warnings(target: LeptonTarget) -> Iterator[str]:
    for number, mount in enumerate(target.mounts):
        if not mount.get("from"):
            yield (
                f"mounts[{number}] names no volume: the node group is asked which one has {mount['path']}; where "
                'several do, write from, such as from = "node-nfs:my-volume"'
            )
    folder, at = target.nemo_run_dir, target.mounted_at
    if at:
        yield f"nemo_run_dir {folder!r} is on none of mounts: the node group's volume will be mounted at {at}"
    elif folder and not target.shared:
        yield f"nemo_run_dir {folder!r} {target.why_lost(folder)}: what a job writes there is lost when it ends"


_OF_RAY = ("ray_version", "head_resource_shape")
_OF_GROUPS = ("queue_priority", "can_preempt", "can_be_preempted", "node_reservation")
"""What Lepton takes only with a node group: queues and reservations are a node group's own."""


def _key_warnings(env: Mapping[str, Any]) -> Iterator[str]:
    """Keys that mean nothing in this profile."""
    if given := [key for key in _OF_RAY if env.get(key)]:
        names = ", ".join(given)
        yield f"{names}: only for scripts that use NeMo-Run themselves; here Ray runs on the job's own nodes"
    if (given := [key for key in _OF_GROUPS if env.get(key)]) and not env.get("node_group"):
        yield f"{', '.join(given)}: Lepton takes this only with a node_group"


def _custom_warnings(target: LeptonTarget, env: Mapping[str, Any]) -> Iterator[str]:
    """What `custom_spec` replaces of the job's spec, each key by its path."""
    spec = make_spec(target, nodes_of(env), env.get("secrets") or (), ())
    return (f"custom_spec replaces {path} of the job's spec" for path in target.merged(spec).replaced)
