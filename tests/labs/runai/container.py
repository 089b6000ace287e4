"""What a workload's containers are given: command, environment, mounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.runai.expand import expanded, words
from labs.runai.model import LabPod, Workload

if TYPE_CHECKING:
    from labs.runai.server import RunaiLab


class Unconfigured(Exception):
    """The container cannot be made: its secret or key does not exist."""


def spec_of(workload: Workload, pod: LabPod) -> Mapping[str, Any]:
    """The specification of one pod: a master's own, where there is one, beside the workers'."""
    own = workload.request.get("masterSpec") if pod.role == "master" else None
    return {**workload.spec, **own} if own else workload.spec


def environment(lab: RunaiLab, workload: Workload, pod: LabPod, port: int) -> dict[str, str]:
    """The variables of a container. Raises: Unconfigured."""
    made: dict[str, str] = {}
    for item in spec_of(workload, pod).get("environmentVariables") or ():
        if not item.get("exclude"):
            made[item["name"]] = _value(lab, workload, pod, item, made)
    return {**_platform(workload, pod), **made, **_operator(workload, pod, port)}


def command(workload: Workload, pod: LabPod, variables: Mapping[str, str]) -> list[str]:
    """The argument list of a container."""
    spec = spec_of(workload, pod)
    return [expanded(word, variables) for word in words(spec["command"], spec.get("args") or "")]


def mounts(lab: RunaiLab, workload: Workload, pod: LabPod) -> Iterator[tuple[Path, str, bool]]:
    """Claims with their paths and whether they are read-only."""
    storage = spec_of(workload, pod).get("storage") or {}
    for item in storage.get("pvc") or ():
        if not item.get("exclude"):
            yield lab.claims[item["claimName"]], item["path"], bool(item.get("readOnly"))


def _value(lab: RunaiLab, workload: Workload, pod: LabPod, item: Mapping[str, Any], before: Mapping[str, str]) -> str:
    if item.get("value") is not None:
        return expanded(item["value"], before)
    if item.get("podFieldRef"):
        return _field(workload, pod, item["podFieldRef"]["path"])
    if item.get("userCredential"):
        return _key(lab.user_credentials, "user credential", item["userCredential"])
    kind = "secret" if item.get("secret") else "configMap"
    return _key(lab.secrets if kind == "secret" else {}, kind, item[kind])


def _key(store: Mapping[str, Mapping[str, str]], kind: str, reference: Mapping[str, str]) -> str:
    name, key = reference["name"], reference["key"]
    if name not in store:
        raise Unconfigured(f'{kind} "{name}" not found')
    if key not in store[name]:
        raise Unconfigured(f"couldn't find key {key} in {kind} {name}")
    return store[name][key]


def _field(workload: Workload, pod: LabPod, path: str) -> str:
    known = {
        "metadata.name": pod.name,
        "metadata.namespace": workload.project.namespace,
        "metadata.uid": pod.id,
        "spec.nodeName": pod.node or "",
        "status.podIP": "127.0.0.1",
    }
    if path not in known:
        raise Unconfigured(f"field {path} is not supported")
    return known[path]


def _platform(workload: Workload, pod: LabPod) -> dict[str, str]:
    gpus = (workload.spec.get("compute") or {}).get("gpuDevicesRequest") or 0
    return {
        "RUNAI_PROJECT": workload.project.name,
        "RUNAI_JOB_NAME": workload.name,
        "RUNAI_NUM_OF_GPUS": str(gpus),
        "jobName": workload.name,
        "jobUUID": workload.id,
        "podUUID": pod.id,
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
    }


def _operator(workload: Workload, pod: LabPod, port: int) -> dict[str, str]:
    """The variables of Kubeflow's training operator (1.8, pkg/controller.v1/pytorch/envvar.go and elastic.go).

    Without a master it sets no MASTER_ADDR, RANK or WORLD_SIZE; RANK of worker i beside a master is i + 1.
    """
    if not pod.role:
        return {}
    count = str(len(workload.pods))
    made = {"PYTHONUNBUFFERED": "1", "PET_NNODES": count}
    if workload.pods[0].role == "master":
        rank = str(workload.pods.index(pod))
        made |= {
            "MASTER_ADDR": f"{workload.name}-master-0",
            "MASTER_PORT": str(port),
            "WORLD_SIZE": count,
            "RANK": rank,
        }
        made |= {f"PET_{name}": made[name] for name in ("MASTER_ADDR", "MASTER_PORT")}
        made |= {"PET_NODE_RANK": rank, "PET_NPROC_PER_NODE": "auto"}
    spec = workload.spec
    if spec.get("minReplicas") or spec.get("maxReplicas"):
        least, most = spec.get("minReplicas") or count, spec.get("maxReplicas") or count
        made |= {"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ID": workload.name, "PET_NNODES": f"{least}:{most}"}
        made["PET_RDZV_ENDPOINT"] = f"{workload.name}-worker-0:{port}"
    return made
