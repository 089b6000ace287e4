"""The workload that is posted for a plan, and its `spec`. What only run:ai knows is a placeholder. Pure.

Keys and their meaning are those of run:ai's published API, 2.24 (`POST /api/v1/workloads/trainings`, `…/distributed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nemo_runspec.backends.cloud.request import UPLOAD, CreateRequest
from nemo_runspec.placeholders import Placeholder
from nemo_runspec.plans.storage import READ_ONLY, StorageMount, tables
from nemo_runspec.transport.reading import count

if TYPE_CHECKING:
    from nemo_runspec.backends.dgxcloud.fields import DgxCloudTarget
    from nemo_runspec.plans.model import Plan

Spec = dict[str, Any]

TRAININGS, DISTRIBUTED = "trainings", "distributed"
"""The kinds of workloads: of one node, and of several."""

VARIABLES = "environmentVariables"

LISTS: Mapping[str, str] = {VARIABLES: "name"}
"""The list of tables that `custom_spec` adds to, and what tells its tables apart."""

BOOT, UPLOAD_PIECE, ATTEMPT = "NEMOTRON_BOOT", "NEMOTRON_UPLOAD_", "NEMOTRON_POD_ATTEMPT"
"""Variables of the workload: the program that is run; what it fetches, in pieces; how often it was tried before."""

PROJECT, CLUSTER = "PROJECT_ID", "CLUSTER_ID"

BASE_URL = "BASE_URL"
"""Shown for a profile that names no control plane yet."""


def make_request(target: DgxCloudTarget, plan: Plan) -> CreateRequest:
    """The request that makes a plan's workload."""
    from nemo_runspec.backends.cloud.pod.program import boot_program, node_program

    nodes, project = plan.resources.nodes, target.project_name or "the project"
    spec = target_spec(target, nodes, plan.resources.gpus_per_node, boot_program(node_program(plan.executor)), [UPLOAD])
    body = {
        "name": plan.name,
        "projectId": Placeholder(PROJECT, f"the id of project {project}, asked for when it is submitted"),
        "clusterId": Placeholder(CLUSTER, f"the id of the cluster of {project}, asked for when it is submitted"),
        **({"masterSpecSameAsWorker": True} if nodes > 1 else {}),
        "spec": target.merged(spec).spec,
    }
    return CreateRequest(target.base_url.rstrip("/") or BASE_URL, f"/workloads/{kind_of(nodes)}", body)


def kind_of(nodes: int) -> str:
    """Which of run:ai's kinds of workload a job is."""
    return DISTRIBUTED if nodes > 1 else TRAININGS


def target_spec(
    target: DgxCloudTarget, nodes: int = 1, gpus: int = 0, boot: str = "", upload: Sequence[Placeholder] = ()
) -> Spec:
    """The spec of a target's job before `custom_spec`. `boot`: the program its pods start with."""
    own = [{"name": BOOT, "value": boot}, {"name": ATTEMPT, "value": "0"}]
    kept = [_reference(name, reference) for name, reference in target.secret_vars.items()]
    return base_spec(
        target.container_image, target.pvcs, [*own, *upload, *kept], nodes, gpus, target.distributed_framework
    )


def base_spec(
    image: str,
    pvcs: Iterable[Mapping[str, Any]],
    variables: list[Any],
    nodes: int = 1,
    gpus: int = 0,
    framework: str = "",
) -> Spec:
    """The spec of a job: run once, by bash, whatever else becomes of it.

    `backoffLimit` is 6 where nothing is said, and a container that failed is then run again. With several nodes one is
    the master, which works as the others do; only then does Kubeflow tell the pods who they are.
    """
    spec: Spec = {
        "command": "/bin/bash",
        "args": "-c 'eval \"$NEMOTRON_BOOT\"'",
        "image": image,
        VARIABLES: variables,
        "compute": {**({"gpuDevicesRequest": gpus} if gpus else {}), "largeShmRequest": True},
        "storage": {"pvc": [claim_entry(claim) for claim in pvcs]},
        "restartPolicy": "Never",
        "backoffLimit": 0,
    }
    if nodes > 1:
        spec |= {"distributedFramework": framework, "numWorkers": nodes - 1}
    return spec


def gpus_asked(compute: Mapping[str, Any]) -> int | None:
    """GPUs of a pod with these resources at most, a part of one counted as one; None where that is not known."""
    if any("gpu" in str(each).lower() for each in tables(compute.get("extendedResources"))):
        return None
    if "gpuDevicesRequest" in compute:
        return count(compute["gpuDevicesRequest"])
    return 1 if any(compute.get(key) for key in _PARTS) else 0


_PARTS = ("gpuRequestType", "gpuPortionRequest", "gpuMemoryRequest")
"""By which a pod asks for a part of a device: of one, unless it says of how many."""


def claim_entry(claim: Mapping[str, Any]) -> Spec:
    """A claim of the profile in the API's own words.

    `existingPvc` is false where nothing is said: a misspelt name would then make a new, empty volume.
    """
    named = {"claimName": claim.get("claimName") or claim.get("name"), "path": claim["path"]}
    usual = {"existingPvc": not claim.get("claimInfo"), "readOnly": bool(claim.get("readOnly"))}
    only_name = {"name"} if not claim.get("claimName") else set()
    return {**named, **usual, **{key: value for key, value in claim.items() if key not in only_name}}


_KINDS: Mapping[str, tuple[str, str]] = {
    "pvc": ("path", ""),
    "nfs": ("mountPath", ""),
    "hostPath": ("mountPath", ""),
    "dataVolume": ("mountPath", READ_ONLY),
    "configMapVolume": ("mountPath", READ_ONLY),
    "secretVolume": ("mountPath", READ_ONLY),
    "emptyDirVolume": ("mountPath", "gone with the job"),
    "git": ("path", "a copy that is gone with the job"),
    "s3": ("path", "a copy that is gone with the job"),
}
"""Kinds of storage: the key of their place in the job, and why what is written there is lost."""


def mounts_of(spec: Mapping[str, Any]) -> tuple[StorageMount, ...]:
    """What a spec mounts, claims and all else."""
    storage = spec.get("storage")
    rows = storage.items() if isinstance(storage, Mapping) else ()
    return tuple(_mount(row, *_KINDS[kind]) for kind, given in rows if kind in _KINDS for row in tables(given))


def _mount(row: Mapping[str, Any], key: str, lost: str) -> StorageMount:
    lost = lost or (READ_ONLY if row.get("readOnly") else "")
    return StorageMount(str(row.get(key) or "/"), lost=lost or ("gone with the job" if row.get("ephemeral") else ""))


def upload_variables(words: Iterable[str]) -> list[Spec]:
    """The words of an upload as the variables that boot.sh reads them from."""
    return [{"name": f"{UPLOAD_PIECE}{number}", "value": word} for number, word in enumerate(words)]


def credential_of(reference: str) -> str:
    """The credential of `credential/key`."""
    return reference.partition("/")[0]


def credential_placeholder(reference: str) -> Placeholder:
    """Stands for the cluster's secret of a reference's credential."""
    name = credential_of(reference)
    return Placeholder(f"SECRET:{name}", f"the cluster's secret of credential {name}, asked for when it is submitted")


def _reference(name: str, reference: str) -> Spec:
    return {"name": name, "secret": {"name": credential_placeholder(reference), "key": reference.partition("/")[2]}}
