"""What only the platform knows of a plan: the values of its payload's holes, asked for before a submission."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.checks import below
from nemo_runspec.backends.lepton.api import LeptonApi, id_of
from nemo_runspec.backends.lepton.fields import LeptonTarget
from nemo_runspec.backends.lepton.mounts import fill_mounts
from nemo_runspec.backends.lepton.payload import open_holes, payload
from nemo_runspec.backends.lepton.secrets import secret_facts
from nemo_runspec.backends.lepton.shapes import resolve_shape
from nemo_runspec.backends.lepton.spec import MOUNT, NODE_GROUP, RESOURCE_SHAPE
from nemo_runspec.errors import UserError
from nemo_runspec.planning.model import Plan


def group_of(api: LeptonApi, target: LeptonTarget) -> Mapping[str, Any] | None:
    """The node group that a profile names by id or name, None where it names none. Raises `UserError` for none."""
    return api.node_group(target.node_group) if target.node_group else None


def platform_facts(
    api: LeptonApi, plan: Plan, values: Mapping[str, str], group: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The values of the holes, but for the cargo. Changes nothing on the platform.

    Args:
        values: of the plan's secrets, for the names of the workspace's secrets that are made of them.
        group: the node group, as `group_of` has found it.

    Raises:
        UserError: the platform has not what the plan asks for.
    """
    target: LeptonTarget = plan.target
    wanted = set(open_holes(payload(plan)))
    facts = secret_facts(plan, values, api.login.workspace)
    id = id_of(group) if group is not None else ""
    if group is not None:
        facts[NODE_GROUP] = id
    if RESOURCE_SHAPE in wanted:
        facts[RESOURCE_SHAPE] = resolve_shape(api, plan.resources.gpus_per_node, id)
    return facts | fill_mounts(api, target, group)


def settled(plan: Plan, facts: Mapping[str, Any]) -> Plan:
    """The plan as it is once it is known whether a volume was found for it.

    Raises:
        UserError: there was none, and something would be lost.
    """
    if not plan.target.mounted_at or facts.get(MOUNT):
        return plan
    plan = dataclasses.replace(plan, target=dataclasses.replace(plan.target, mounted_at="", shared=False))
    refuse_loss(plan, "the node group has no volume, and ")
    return plan


def refuse_loss(plan: Plan, why: str = "") -> None:
    """Raises `UserError` where nodes could not share their files, or where an output would end with its pod.

    Args:
        why: what is known of it beyond the plan.
    """
    target: LeptonTarget = plan.target
    if target.shared:
        return
    what = ""
    lost = [f"{each.name} ({each.path})" for each in plan.produces if each.path and not _outlives(each.path, target)]
    if plan.resources.nodes > 1:
        what = f"{plan.resources.nodes} nodes share no directory"
    elif lost:
        what = f"{', '.join(lost)} would be lost when the job ends"
    if what:
        raise UserError(
            f"nemo_run_dir '{target.nemo_run_dir}' is on none of mounts: {why}{what}; nothing was submitted",
            remedy=f'mounts = [{{ path = "/…", mount_path = "{target.nemo_run_dir or "/mnt/data"}", '
            'from = "node-nfs:VOLUME" }], or outputs with output_url, which hold them, for a job of one node',
        )


def _outlives(path: str, target: LeptonTarget) -> bool:
    """Whether what a job writes there is still there without its pod: it is on a mount, or is copied away."""
    places = [*(str(mount["mount_path"]) for mount in target.mounts), *target.outputs]
    return any(below(posixpath.normpath(path), posixpath.normpath(place)) for place in places)
