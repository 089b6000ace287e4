"""Resolves the placeholders of a payload: values that only the platform knows, asked for before a submission.

A volume belongs to a node group; which of its folders may be mounted, its storage permissions say.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nemo_runspec.backends.lepton.api import LeptonApi, id_of, name_of, rows
from nemo_runspec.backends.lepton.fields import LeptonTarget, no_meeting
from nemo_runspec.backends.lepton.payload import MOUNT, NODE_GROUP, RESOURCE_SHAPE, WORKSPACE, source_placeholder
from nemo_runspec.backends.lepton.secrets import secret_facts
from nemo_runspec.backends.lepton.shapes import resolve_shape
from nemo_runspec.errors import UserError
from nemo_runspec.paths import below
from nemo_runspec.placeholders import placeholders
from nemo_runspec.planning.kept import problems_of
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.transport.reading import text
from nemo_runspec.transport.web import Refused

_PREFERRED = ("lustre", "filestore")
"""Parts of a volume's name, the best first: parallel file systems before others."""

_LOCAL = "node-local"
"""`from` of a node's own disk: what is on it goes with the node."""


@dataclass(frozen=True, slots=True)
class Volume:
    """Storage of a node group. `prefixes`: the folders of it that may be mounted."""

    name: str
    source: str
    prefixes: tuple[str, ...]


def group_of(api: LeptonApi, target: LeptonTarget) -> Mapping[str, Any] | None:
    """The node group that a profile names by id or name, None where it names none. Raises `UserError` for none."""
    return api.node_group(target.node_group) if target.node_group else None


def platform_facts(
    api: LeptonApi, plan: Plan, values: Mapping[str, str], group: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The values of the placeholders, but for the upload. Changes nothing on the platform.

    Args:
        values: of the plan's secrets, for the names of the workspace's secrets that are made of them.
        group: the node group, as `group_of` has found it.

    Raises:
        UserError: the platform has not what the plan asks for.
    """
    target = target_of(plan, LeptonTarget)
    facts = {WORKSPACE: api.login.url, **secret_facts(plan, values, api.login.workspace)}
    id = id_of(group) if group is not None else ""
    facts |= {NODE_GROUP: id} if group is not None else {}
    if RESOURCE_SHAPE in set(placeholders(target.request(plan).body)):
        facts[RESOURCE_SHAPE] = resolve_shape(api, plan.resources.gpus_per_node, id)
    return facts | fill_mounts(api, target, group)


def settled(plan: Plan, facts: Mapping[str, Any]) -> Plan:
    """The plan as it is once it is known whether a volume was found for it.

    Raises:
        UserError: there was none, and nodes could not share their files, or an output would end with its pod.
    """
    target = target_of(plan, LeptonTarget)
    if not target.mounted_at or facts.get(MOUNT):
        return plan
    plan = replace(plan, target=replace(target, mounted_at="", shared=False))
    why = no_meeting(target_of(plan, LeptonTarget), plan.resources.nodes)
    lost = [why] if why else [problem.what for problem in problems_of(plan)]
    if lost:
        folder = target.nemo_run_dir
        raise UserError(
            f"nemo_run_dir '{folder}' is on none of mounts: the node group has no volume, and {'; '.join(lost)}; "
            "nothing was submitted",
            remedy=f'mounts = [{{ path = "/…", mount_path = "{folder or "/mnt/data"}", '
            'from = "node-nfs:VOLUME" }], or outputs with output_url, which hold them, for a job of one node',
        )
    return plan


def fill_mounts(api: LeptonApi, target: LeptonTarget, group: Mapping[str, Any] | None) -> dict[str, Any]:
    """What fills the placeholders of a payload's mounts.

    Args:
        group: the node group the job is to run in; None where the profile names none.

    Raises:
        UserError: no volume, or more than one, can be meant; or none of its folders may be mounted.
    """
    missing = [number for number, mount in enumerate(target.mounts) if not mount.get("from")]
    if not missing and not target.mounted_at:
        return {}
    found = group or _only_group(api, needed=bool(missing))
    name = f"node group '{name_of(found) or id_of(found)}'" if found is not None else "the workspace"
    volumes = _permitted(api, found) if found is not None else []
    facts: dict[str, Any] = {
        source_placeholder(n): _source(volumes, n, str(target.mounts[n]["path"]), name) for n in missing
    }
    return {**facts, MOUNT: _volume_at(target.mounted_at, volumes, name)} if target.mounted_at else facts


def _permitted(api: LeptonApi, group: Mapping[str, Any]) -> list[Volume]:
    """As `volumes_of`. Raises `UserError` where the folders are not told to us: then no volume can be chosen."""
    try:
        return volumes_of(api, group)
    except Refused as error:
        if error.status not in (401, 403):
            raise
        raise UserError(
            f"mounts: which folders may be mounted is not known: {error.what}",
            remedy='name each mount\'s volume, such as from = "node-nfs:my-volume"; it is not checked then',
        ) from None


def volumes_of(api: LeptonApi, group: Mapping[str, Any], only: Collection[str] = ()) -> list[Volume]:
    """The volumes of a node group, the likeliest for a job's files first.

    Args:
        only: those, as `from` names them, whose folders are asked for: others are shown without. By default all.
    """
    found = []
    for volume in rows(group, "spec", "volumes"):
        name, source = text(volume.get("name")), source_of(volume)
        permissions = api.storage_permissions(name, id_of(group)) if not only or source in only else []
        prefixes = tuple(prefix for each in permissions if (prefix := text(each.get("path_prefix"))))
        found.append(Volume(name, source, prefixes))
    return sorted(found, key=_rank)


def source_of(volume: Mapping[str, Any]) -> str:
    """`from` of a mount of this volume, such as `node-nfs:lustre`."""
    kind = text(volume.get("from")) or "nfs"
    return _LOCAL if kind == "local" else f"node-{kind}:{text(volume.get('name'))}"


def _rank(volume: Volume) -> int:
    """Smaller is better; what lies on one node's own disk comes last."""
    if volume.source == _LOCAL:
        return len(_PREFERRED) + 1
    name = volume.name.lower()
    return next((rank for rank, word in enumerate(_PREFERRED) if word in name), len(_PREFERRED))


def _only_group(api: LeptonApi, *, needed: bool) -> Mapping[str, Any] | None:
    """The workspace's only node group; None where there is not one and it is not needed."""
    groups = api.node_groups()
    if len(groups) == 1:
        return groups[0]
    if not needed:
        return None
    names = ", ".join(sorted(name_of(group) or id_of(group) for group in groups)) or "none"
    raise UserError(
        "mounts: whose volume is meant is not known",
        remedy=f'set node_group to one of {names}, or name each mount\'s volume, such as from = "node-nfs:my-volume"',
    )


def _volume_at(place: str, volumes: Sequence[Volume], group: str) -> list[dict[str, Any]]:
    """The mount of a profile without any: none where there is no volume at all."""
    shared = [volume for volume in volumes if volume.source != _LOCAL]
    if not shared:
        return []
    named = [volume for volume in shared if posixpath.basename(place) == volume.name]
    allowed = [volume for volume in (*named, *shared) if volume.prefixes]
    if not allowed:
        names = ", ".join(volume.name for volume in shared)
        raise UserError(
            f"mounts: you have no permission for any volume of {group} ({names})",
            remedy="ask the workspace's administrator for one, or name mounts",
        )
    return [{"path": allowed[0].prefixes[0], "mount_path": place, "from": allowed[0].source}]


def _source(volumes: Sequence[Volume], number: int, path: str, group: str) -> str:
    if len(volumes) == 1 and not volumes[0].prefixes and volumes[0].source == _LOCAL:
        return volumes[0].source
    everywhere = [volume for volume in volumes if any(below(path, prefix) for prefix in volume.prefixes)]
    # A node's own disk is taken only where there is nothing that all nodes see.
    fitting = [volume for volume in everywhere if volume.source != _LOCAL] or everywhere
    if len(fitting) == 1:
        return fitting[0].source
    if fitting:
        sources = " or ".join(f'from = "{volume.source}"' for volume in fitting)
        raise UserError(
            f"mounts[{number}]: {path} can be mounted of {len(fitting)} volumes of {group}",
            remedy=f"name the one that is meant: {sources}",
        )
    have = ", ".join(f"{prefix} of {volume.source}" for volume in volumes for prefix in volume.prefixes) or "none"
    raise UserError(
        f"mounts[{number}]: you have no permission for {path} on a volume of {group}",
        remedy=f"permissions you have: {have}",
    )
