"""Lists of a Lepton workspace: `nemotron lepton shapes | node-groups | …`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from nemo_runspec.backends.cloud.api import AT_ONCE
from nemo_runspec.backends.lepton.api import LeptonApi, connect, id_of, name_of, rows, section
from nemo_runspec.backends.lepton.nodes import is_open, state_of
from nemo_runspec.backends.lepton.resolve import source_of
from nemo_runspec.backends.listing import Listing, ListingRequest, ListingRow, Listings
from nemo_runspec.errors import UserError
from nemo_runspec.transport.reading import number, text, texts, whole


def connected(env: Mapping[str, Any], profile: str | None, env_file: str | None) -> LeptonApi:
    """The current workspace. Raises `UserError` without a login."""
    return connect(patience=AT_ONCE, say=partial(print, file=sys.stderr, flush=True))


def _groups(request: ListingRequest[LeptonApi]) -> list[dict[str, Any]]:
    """The node group that is named, else the profile's, else all."""
    named = request.within or str(request.env.get("node_group") or "")
    return [request.api.node_group(named)] if named else request.api.node_groups()


def _shapes(request: ListingRequest[LeptonApi]) -> Iterator[ListingRow]:
    """`cluster` is what NVIDIA's TAO SDK calls the node group's id."""
    found = [(shape, group) for group in _groups(request) for shape in request.api.shapes(id_of(group))]
    if not request.within and not request.env.get("node_group"):
        known = {id_of(shape) for shape, _ in found}
        found += [(shape, {}) for shape in request.api.shapes() if id_of(shape) not in known]
    for shape, group in found:
        spec = section(shape, "spec")
        yield {
            "shape": id_of(shape),
            "group": name_of(group) or id_of(group),
            "cluster": id_of(group),
            "gpus": number(spec.get("accelerator_fraction")) or number(spec.get("accelerator_num")) or 0,
            "type": text(spec.get("accelerator_type")),
            "cpus": number(spec.get("cpu")),
            "memory_gb": round((number(spec.get("memory_in_mb")) or 0) / 1024),
            "for": texts(spec.get("listable_in")),
        }


def _node_groups(request: ListingRequest[LeptonApi]) -> Iterator[ListingRow]:
    for group in request.api.node_groups():
        yield {
            "name": name_of(group),
            "id": id_of(group),
            "gpu": section(group, "spec").get("gpu_product") or "",
            "ready_nodes": section(group, "status").get("ready_nodes"),
            "quota_enabled": bool(section(group, "status").get("quota_enabled")),
            "volumes": [str(volume.get("name")) for volume in rows(group, "spec", "volumes")],
        }


def _nodes(request: ListingRequest[LeptonApi]) -> Iterator[ListingRow]:
    for group in _groups(request):
        for node in request.api.nodes(id_of(group)):
            gpu = section(node, "spec", "resource", "gpu")
            total, taken = number(gpu.get("total")) or 0, number(gpu.get("allocated")) or 0
            yield {
                "node": id_of(node),
                "group": name_of(group) or id_of(group),
                "state": state_of(node),
                "gpus": int(total),
                "free": max(0, int(total - taken)) if is_open(node) else 0,
                "jobs": [str(each.get("name") or id_of(each)) for each in rows(node, "status", "workloads")],
            }


def _reservations(request: ListingRequest[LeptonApi]) -> Iterator[ListingRow]:
    for group in _groups(request):
        for each in request.api.reservations(id_of(group)):
            spec, status = section(each, "spec"), section(each, "status")
            nodes = texts(status.get("reserved_nodes"))
            yield {
                "reservation": id_of(each),
                "group": name_of(group) or id_of(group),
                "phase": text(status.get("phase")),
                "desired": whole(spec.get("desired_nodes")),
                "approved": whole(spec.get("approved_nodes")),
                # The server leaves a count of 0 out.
                "reserved": whole(status.get("reserved_count")) or len(nodes),
                "nodes": nodes,
            }


def _volumes(request: ListingRequest[LeptonApi]) -> Iterator[ListingRow]:
    for group in _groups(request):
        for volume in rows(group, "spec", "volumes"):
            yield {
                "volume": volume.get("name"),
                "group": name_of(group) or id_of(group),
                "from": source_of(volume),
                "size_gb": volume.get("size_in_gb"),
                "mounted_at": volume.get("default_mount_path") or "",
                "path": volume.get("from_path") or "",
            }


def _permissions(request: ListingRequest[LeptonApi]) -> Iterator[ListingRow]:
    groups = _groups(request)
    names = {id_of(group): {str(volume.get("name")) for volume in rows(group, "spec", "volumes")} for group in groups}
    there = set().union(*names.values())
    if request.argument not in there:
        have = ", ".join(sorted(there)) or "none"
        raise UserError(f"there is no volume '{request.argument}'", remedy=f"volumes there are: {have}")
    for group in groups:
        if request.argument not in names[id_of(group)]:
            continue
        for each in request.api.storage_permissions(request.argument, id_of(group)):
            yield {
                "path": each.get("path_prefix"),
                "group": name_of(group) or id_of(group),
                "users": each.get("allowed_users") or [],
                "subfolders": each.get("subfolder_policy") or "",
            }


def _secrets(request: ListingRequest[LeptonApi]) -> Iterator[ListingRow]:
    yield from ({"secret": name, "kind": "variable"} for name in request.api.secrets())
    yield from ({"secret": name, "kind": "registry"} for name in request.api.image_pull_secrets())


_SHAPE = {
    "SHAPE": "shape", "GROUP": "group", "GPUS": "gpus", "TYPE": "type", "CPUS": "cpus", "GB": "memory_gb", "FOR": "for",
}  # fmt: skip
_GROUP = {"NAME": "name", "ID": "id", "GPU": "gpu", "NODES": "ready_nodes", "QUOTA": "quota_enabled"}
_NODE = {"NODE": "node", "GROUP": "group", "STATE": "state", "GPUS": "gpus", "FREE": "free", "JOBS": "jobs"}
_RESERVED = {"DESIRED": "desired", "APPROVED": "approved", "RESERVED": "reserved", "NODES": "nodes"}
_RESERVATION = {"RESERVATION": "reservation", "GROUP": "group", "PHASE": "phase", **_RESERVED}
_VOLUME = {"VOLUME": "volume", "GROUP": "group", "FROM": "from", "GB": "size_gb", "AT": "mounted_at", "PATH": "path"}
_PERMISSION = {"PATH": "path", "GROUP": "group", "SUBFOLDERS": "subfolders", "USERS": "users"}

_OF_GROUP = ("node-group", "One node group, by its name or its id; by default the profile's, else all.")

_LISTS = (
    Listing("shapes", "Resource shapes for jobs: their GPUs, CPUs and memory.", _SHAPE, _shapes, within=_OF_GROUP),
    Listing("node-groups", "Node groups: their nodes and volumes.", {**_GROUP, "VOLUMES": "volumes"}, _node_groups),
    Listing(
        "nodes", "Nodes: their GPUs, how many of them are free, and what runs there.", _NODE, _nodes, within=_OF_GROUP
    ),
    Listing("reservations", "Reservations of nodes.", _RESERVATION, _reservations, within=_OF_GROUP),
    Listing("volumes", "Volumes that jobs may mount, with the 'from' of a mount.", _VOLUME, _volumes, within=_OF_GROUP),
    Listing(
        "permissions",
        "Folders of a volume that jobs may mount.",
        _PERMISSION,
        _permissions,
        argument="volume",
        argument_help="The volume's name, as 'volumes' shows it.",
        within=_OF_GROUP,
    ),
    Listing("secrets", "Names of the secrets the workspace keeps.", {"SECRET": "secret", "KIND": "kind"}, _secrets),
)

LISTINGS = Listings(connected, _LISTS)
"""A login is enough; a profile's `node_group` says which group's things are meant."""
