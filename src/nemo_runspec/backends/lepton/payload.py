"""The body of `POST /jobs` in the words of Lepton's API. What only the platform knows is a placeholder. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nemo_runspec.backends.cloud.request import UPLOAD, CreateRequest
from nemo_runspec.placeholders import Placeholder

if TYPE_CHECKING:
    from nemo_runspec.backends.lepton.fields import LeptonTarget
    from nemo_runspec.plans.model import Plan

NODE_GROUP, RESOURCE_SHAPE, MOUNT = "NODE_GROUP", "RESOURCE_SHAPE", "MOUNT"

WORKSPACE = Placeholder(
    "WORKSPACE", "URL of the workspace, from LEPTON_WORKSPACE_ID and LEPTON_WORKSPACE_URL when it is submitted"
)
IMAGE_PULL_SECRET = Placeholder(
    "IMAGE_PULL_SECRET", "name of the secret for nvcr.io, made of NGC_KEY when it is submitted; none without it"
)

JOB_LABEL, ATTEMPT_LABEL = "nemotron-job", "nemotron-attempt"

VARIABLES = "envs"

LISTS: Mapping[str, str] = {VARIABLES: "name", "mounts": "mount_path"}
"""Lists of tables that `custom_spec` adds to, and what tells their tables apart."""

DEFAULT_PRIORITY = "mid-4000"

_NVIDIA_REGISTRY = "nvcr.io/"


def make_request(target: LeptonTarget, plan: Plan) -> CreateRequest:
    """The request that makes a plan's job."""
    from nemo_runspec.backends.cloud.pod.program import boot_program, node_program

    command = ["/bin/bash", "-c", boot_program(node_program(plan.executor)), "nemotron", UPLOAD]
    secrets = [secret.name for secret in plan.secrets if secret.origin != "missing"]
    spec = make_spec(target, plan.resources.nodes, secrets, command, plan.resources.gpus_per_node)
    metadata = {"id": plan.name, "name": plan.name, "labels": {JOB_LABEL: plan.name, ATTEMPT_LABEL: "0"}}
    return CreateRequest(WORKSPACE, "/jobs", {"metadata": metadata, "spec": target.merged(spec).spec})


def make_spec(
    target: LeptonTarget, nodes: int, secrets: Iterable[str], command: Sequence[str], gpus: int = 0
) -> dict[str, Any]:
    """The spec before `custom_spec`. Keys that hold nothing are left out, as Lepton's own client does.

    Args:
        secrets: variables of the job whose values become secrets of the workspace.
        gpus: of a node, where its shape is looked for by them.
    """
    shape = Placeholder(RESOURCE_SHAPE, f"the workspace's shape with {gpus} GPUs, asked for when it is submitted")
    group = Placeholder(NODE_GROUP, f"id of node group '{target.node_group}', asked for when it is submitted")
    spec = {
        "resource_shape": target.resource_shape or shape,
        "affinity": {"allowed_dedicated_node_groups": [group]} if target.node_group else None,
        "container": {"image": target.container_image, "command": list(command)},
        "completions": nodes,
        "parallelism": nodes,
        "intra_job_communication": nodes > 1,
        # A failed command is not to be run again behind our back; what was evicted is submitted again by us.
        "max_failure_retry": 0,
        "max_job_failure_retry": 0,
        "shared_memory_size": target.shared_memory_size,
        VARIABLES: _variables(target, secrets),
        "mounts": _mounts(target),
        "image_pull_secrets": _pull_secrets(target),
        "ttl_seconds_after_finished": target.ttl,
        "log": {"enable_collection": True, "save_termination_logs": True},
        "queue_config": _queue(target),
        "reservation_config": {"reservation_id": target.node_reservation} if target.node_reservation else None,
    }
    return {key: value for key, value in spec.items() if value not in (None, [], {})}


def secret_placeholder(name: str) -> Placeholder:
    """Stands for the name of the workspace's secret that a variable's value is put into."""
    return Placeholder(
        f"SECRET_{name}", f"name of the workspace's secret with the value of {name}, made when it is submitted"
    )


def source_placeholder(number: int, path: str = "") -> Placeholder:
    """Stands for `from` of a mount that the profile does not say. `path`: the folder that is mounted."""
    meaning = f"the node group's volume with {path}, looked for when it is submitted"
    return Placeholder(f"MOUNT_{number}_FROM", meaning)


def wants_pull_secret(target: LeptonTarget) -> bool:
    """True for an image of NVIDIA's registry, where the profile names no secret for it."""
    return target.container_image.startswith(_NVIDIA_REGISTRY) and not target.image_pull_secrets


def _variables(target: LeptonTarget, secrets: Iterable[str]) -> list[dict[str, Any]]:
    """Only references to secrets: what is not secret is exported by the job's own script."""
    named = {name: secret_placeholder(name) for name in secrets}
    return [{"name": k, "value_from": {"secret_name_ref": ref}} for k, ref in {**named, **target.secret_vars}.items()]


def _mounts(target: LeptonTarget) -> list[Any]:
    volume = Placeholder(MOUNT, f"the node group's volume at {target.mounted_at}, looked for when it is submitted")
    given = [
        {**mount, "from": mount.get("from") or source_placeholder(n, mount["path"])}
        for n, mount in enumerate(target.mounts)
    ]
    return [*([volume] if target.mounted_at else []), *given]


def _pull_secrets(target: LeptonTarget) -> list[str]:
    return [IMAGE_PULL_SECRET] if wants_pull_secret(target) else list(target.image_pull_secrets)


def _queue(target: LeptonTarget) -> dict[str, Any]:
    """The queue's settings; preemption goes with a priority, of which the middle one is Lepton's own default."""
    preemption = target.can_preempt or target.can_be_preempted
    config = {
        "priority_class": target.queue_priority or (DEFAULT_PRIORITY if preemption else None),
        "can_preempt": target.can_preempt or None,
        "can_be_preempted": target.can_be_preempted or None,
    }
    return {key: value for key, value in config.items() if value is not None}
