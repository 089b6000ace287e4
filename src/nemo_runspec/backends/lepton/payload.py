"""The body of `POST /jobs`, made of a plan alone, and how its holes are filled once the platform was asked. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from nemo_runspec.backends.lepton.fields import LeptonTarget
from nemo_runspec.backends.lepton.spec import (
    CARGO,
    IMAGE_PULL_SECRET,
    MOUNT,
    NODE_GROUP,
    RESOURCE_SHAPE,
    Hole,
    make_spec,
    merged,
    secret_hole,
    source_hole,
)
from nemo_runspec.planning.model import Plan

WORKSPACE = "WORKSPACE"
JOB_LABEL, ATTEMPT_LABEL = "nemotron-job", "nemotron-attempt"


def payload(plan: Plan) -> dict[str, Any]:
    """The body of `POST /jobs`; its values that are `Hole`s are named by `holes`."""
    from nemo_runspec.backends.cloud.pod.program import boot_program

    target: LeptonTarget = plan.target
    command = ["/bin/bash", "-c", boot_program(), "nemotron", Hole(CARGO)]
    secrets = [secret.name for secret in plan.secrets if secret.origin != "missing"]
    spec, _ = merged(make_spec(target, plan.resources.nodes, secrets, command), target.custom_spec)
    metadata = {"id": plan.name, "name": plan.name, "labels": {JOB_LABEL: plan.name, ATTEMPT_LABEL: "0"}}
    return {"metadata": metadata, "spec": spec}


def as_text(tree: Mapping[str, Any]) -> str:
    """A payload as it is shown and kept."""
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


def fill(tree: Any, facts: Mapping[str, Any]) -> Any:
    """The payload with what is known of its holes put in. A list in the place of a list's item joins that list."""
    if isinstance(tree, Hole):
        return facts.get(tree, tree)
    if isinstance(tree, dict):
        return {key: fill(value, facts) for key, value in tree.items()}
    if isinstance(tree, list):
        return [item for each in tree for item in _items(each, facts)]
    return tree


def open_holes(tree: Any) -> Iterator[str]:
    """Names of the holes that are left, in their order."""
    if isinstance(tree, Hole):
        yield str(tree)
    for value in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from open_holes(value)


def holes(plan: Plan, tree: Mapping[str, Any]) -> tuple[str, ...]:
    """A line for each hole that is left: its name, what it is, and when it is filled."""
    meanings = _meanings(plan)
    names = dict.fromkeys(open_holes(tree))
    return tuple(f"{name}: {meanings.get(name, 'asked for when it is submitted')}" for name in names)


def _items(item: Any, facts: Mapping[str, Any]) -> list[Any]:
    filled = fill(item, facts)
    return list(filled) if isinstance(item, Hole) and isinstance(filled, (list, tuple)) else [filled]


def _meanings(plan: Plan) -> dict[str, str]:
    target: LeptonTarget = plan.target
    gpus = plan.resources.gpus_per_node
    found = {
        NODE_GROUP: f"id of node group '{target.node_group}', asked for when it is submitted",
        RESOURCE_SHAPE: f"the workspace's shape with {gpus} GPUs, asked for when it is submitted",
        CARGO: "the job's files, or where its nodes fetch them, packed when it is submitted",
        MOUNT: f"the node group's volume at {target.mounted_at}, looked for when it is submitted",
        IMAGE_PULL_SECRET: "name of the secret for nvcr.io, made of NGC_KEY when it is submitted; none without it",
    }
    for number, mount in enumerate(target.mounts):
        found[source_hole(number)] = f"the node group's volume with {mount['path']}, looked for when it is submitted"
    for secret in plan.secrets:
        name = secret_hole(secret.name)
        found[name] = f"name of the workspace's secret with the value of {secret.name}, made when it is submitted"
    return found
