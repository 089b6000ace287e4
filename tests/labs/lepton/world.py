"""What a workspace has before any job: shapes, node groups with nodes, volumes and reservations, secrets."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Shape:
    """A resource shape; `id` is opaque to clients."""

    id: str
    groups: tuple[str, ...]
    cpu: float
    memory_in_mb: int
    accelerator_type: str = ""
    accelerator_num: int = 0
    listable_in: tuple[str, ...] = ("pod", "deployment", "job")


@dataclass(frozen=True)
class Volume:
    """A volume of a node group. `mkdir`: a path that is not there is made; else it is `Mount point not found`."""

    name: str
    kind: str = "nfs"
    from_path: str = ""
    prefixes: tuple[str, ...] = ("/",)
    mkdir: bool = True

    @property
    def source(self) -> str:
        """How a mount names it."""
        return f"node-{self.kind}:{self.name}"


@dataclass(frozen=True)
class Node:
    """A machine. `taken`: accelerators that somebody else's jobs hold. `status`: the platform's words for how it is."""

    id: str
    gpus: int = 8
    taken: int = 0
    unschedulable: bool = False
    status: tuple[str, ...] = ("Ready",)

    @property
    def ready(self) -> bool:
        """Whether jobs come to it."""
        return not self.unschedulable and "NotReady" not in self.status


@dataclass
class Group:
    """A dedicated node group."""

    id: str
    name: str
    product: str
    nodes: list[Node]
    volumes: list[Volume]
    quota: bool = True
    reservations: tuple[str, ...] = ()


SHAPES = (
    Shape("cpu.small", ("ng-h100-4f2a", "ng-a100-77c1"), 2, 8192),
    Shape("gpu.1xh100-sxm", ("ng-h100-4f2a",), 24, 196608, "NVIDIA-H100-80GB-HBM3", 1),
    Shape("gpu.2xh100-sxm", ("ng-h100-4f2a",), 48, 393216, "NVIDIA-H100-80GB-HBM3", 2),
    Shape("gpu.2xh100-himem", ("ng-h100-4f2a",), 48, 786432, "NVIDIA-H100-80GB-HBM3", 2),
    Shape("gpu.8xh100-sxm", ("ng-h100-4f2a",), 192, 1572864, "NVIDIA-H100-80GB-HBM3", 8),
    Shape("gpu.8xh100-endpoint", ("ng-h100-4f2a",), 192, 1572864, "NVIDIA-H100-80GB-HBM3", 8, ("deployment",)),
    Shape("gpu.8xa100-80gb", ("ng-a100-77c1",), 96, 1048576, "NVIDIA-A100-80GB", 8),
)


def _groups() -> list[Group]:
    h100 = [Node(f"h100-node-{index}") for index in range(4)]
    a100 = [Node(f"a100-node-{index}") for index in range(2)]
    scratch = Volume("scratch", "local", "/raid")
    home = Volume("home", "nfs", "/export/home", ("/team",), mkdir=False)
    lustre = Volume("lustre", "nfs", "/lustre")
    filestore = Volume("filestore-1", "nfs", "/filestore", ("/team", "/public"))
    return [
        Group("ng-h100-4f2a", "h100-pool", "H100", h100, [scratch, filestore, lustre, home], True, ("res-7h3k",)),
        Group("ng-a100-77c1", "a100-pool", "A100", a100, [home], quota=False),
    ]


@dataclass
class World:
    """All of it; tests change what they like, and `LeptonLab.reset` makes a new one.

    Args:
        folder: below it a directory for each volume; `path` of a mount is below that directory.
        secrets: name → value. `registries`: name of an image pull secret → its spec.
    """

    folder: Path
    groups: list[Group] = field(default_factory=_groups)
    shapes: list[Shape] = field(default_factory=lambda: list(SHAPES))
    secrets: dict[str, str] = field(default_factory=dict)
    registries: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.volumes:
            self.directory(name).mkdir(parents=True, exist_ok=True)

    @property
    def volumes(self) -> dict[str, Volume]:
        """All volumes by name."""
        return {volume.name: volume for group in self.groups for volume in group.volumes}

    @property
    def sources(self) -> dict[str, Volume | None]:
        """What a mount's `from` may be; `node-local` is the node's own disk."""
        return {"node-local": None, **{volume.source: volume for volume in self.volumes.values()}}

    def directory(self, volume: str) -> Path:
        """Where a volume's content is on this machine."""
        return self.folder / "volumes" / volume

    def group(self, id: str) -> Group | None:
        """The group with this id; a name is none."""
        return next((group for group in self.groups if group.id == id), None)

    def shape(self, id: str) -> Shape | None:
        """The shape with this id."""
        return next((shape for shape in self.shapes if shape.id == id), None)

    def group_of(self, node: str) -> Group:
        """The group that a node belongs to."""
        return next(group for group in self.groups if node in {each.id for each in group.nodes})

    def prefixes(self, volume: str) -> tuple[str, ...]:
        """The paths of a volume that may be mounted."""
        return self.volumes[volume].prefixes


def shape_json(shape: Shape) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "name": shape.id,
        "description": f"{shape.accelerator_num}x {shape.accelerator_type}" if shape.accelerator_num else "CPU only",
        "cpu": shape.cpu,
        "memory_in_mb": shape.memory_in_mb,
        "listable_in": list(shape.listable_in),
    }
    if shape.accelerator_num:
        spec |= {"accelerator_type": shape.accelerator_type, "accelerator_num": shape.accelerator_num}
    return {"metadata": {"id": shape.id, "name": shape.id}, "spec": spec}


def group_json(group: Group, workspace: str) -> dict[str, Any]:
    ready = sum(node.ready for node in group.nodes)
    return {
        "metadata": {"id": group.id, "name": group.name, "created_at": 1_700_000_000_000},
        "spec": {
            "workspaces": [workspace],
            "gpu_product": group.product,
            "desired_nodes": len(group.nodes),
            "volumes": [volume_json(volume) for volume in group.volumes],
        },
        "status": {"ready_nodes": ready, "quota_enabled": group.quota},
    }


def volume_json(volume: Volume) -> dict[str, Any]:
    return {
        "from": volume.kind,
        "name": volume.name,
        "size_in_gb": 1024,
        "creation_mode": "mkdir" if volume.mkdir else "mount",
        "from_path": volume.from_path,
        "default_mount_path": f"/mnt/{volume.name}",
    }


def node_json(node: Node, group: Group, workloads: list[dict[str, Any]]) -> dict[str, Any]:
    used = node.taken + sum(int(workload["gpu_count"]) for workload in workloads)
    gpu = {"product": group.product, "allocated": float(min(used, node.gpus)), "total": float(node.gpus)}
    return {
        "metadata": {"id": node.id, "name": f"node-ip-{node.id}"},
        "spec": {
            "dedicated_node_group": group.id,
            "unschedulable": node.unschedulable,
            "resource": {
                "cpu": {"type": "x86_64", "allocated": 0.0, "total": 192.0},
                "gpu": gpu,
                "memory": {"allocated": 0, "total": 2_000_000_000_000},
            },
        },
        "status": {"status": list(node.status), "workloads": workloads},
    }


def reservation_json(id: str, group: Group) -> dict[str, Any]:
    start = int(time.time()) - 3600
    nodes = [node.id for node in group.nodes]
    return {
        "metadata": {"id": id, "name": id, "created_at": (start - 60) * 1000},
        "spec": {
            "users": ["lab"],
            "desired_nodes": len(nodes) + 1,
            "approved_nodes": len(nodes),
            "time_rule": {"start_timestamp": start, "end_timestamp": start + 86400},
        },
        "status": {"phase": "Reserved", "reserved_count": len(nodes), "reserved_nodes": nodes},
    }


def permission_json(prefix: str, group: str) -> dict[str, Any]:
    return {"path_prefix": prefix, "allowed_users": ["*"], "subfolder_policy": "shared", "nodegroup_id": group}
