"""A workload's `spec` as nemotron writes it, and what a profile's `custom_spec` makes of it. Pure.

Keys and their meaning are those of run:ai's published API, 2.24 (`POST /api/v1/workloads/trainings`, `…/distributed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nemo_runspec.backends.cloud import custom_spec
from nemo_runspec.plans.storage import READ_ONLY, StorageMount, tables

Spec = dict[str, Any]

TRAININGS, DISTRIBUTED = "trainings", "distributed"
"""The kinds of workloads: of one node, and of several."""

VARIABLES = "environmentVariables"

BOOT, CARGO, ATTEMPT = "NEMOTRON_BOOT", "NEMOTRON_CARGO_", "NEMOTRON_POD_ATTEMPT"
"""Variables of the workload: the program that is run; what it fetches, in pieces; how often it was tried before."""

OWN_VARIABLES = (BOOT, ATTEMPT)


def base_spec(
    *, image: str, nodes: int, gpus: int, pvcs: Iterable[Mapping[str, Any]], framework: str, variables: list[Any]
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


def merge(spec: Mapping[str, Any], custom: Mapping[str, Any]) -> custom_spec.Merged:
    """The spec with a profile's `custom_spec` in it: variables by their names."""
    return custom_spec.merge(spec, custom, {VARIABLES: "name"})
