"""What only the platform knows of a plan: the values of its payload's placeholders, asked for before a submission."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.lepton.api import LeptonApi, id_of
from nemo_runspec.backends.lepton.fields import LeptonTarget, no_meeting
from nemo_runspec.backends.lepton.mounts import fill_mounts
from nemo_runspec.backends.lepton.payload import MOUNT, NODE_GROUP, RESOURCE_SHAPE, WORKSPACE
from nemo_runspec.backends.lepton.secrets import secret_facts
from nemo_runspec.backends.lepton.shapes import resolve_shape
from nemo_runspec.errors import UserError
from nemo_runspec.placeholders import placeholders
from nemo_runspec.planning.kept import problems_of
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of


def group_of(api: LeptonApi, target: LeptonTarget) -> Mapping[str, Any] | None:
    """The node group that a profile names by id or name, None where it names none. Raises `UserError` for none."""
    return api.node_group(target.node_group) if target.node_group else None


def platform_facts(
    api: LeptonApi, plan: Plan, values: Mapping[str, str], group: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The values of the placeholders, but for the cargo. Changes nothing on the platform.

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
    plan = dataclasses.replace(plan, target=dataclasses.replace(target, mounted_at="", shared=False))
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
