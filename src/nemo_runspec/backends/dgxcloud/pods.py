"""A workload's pods: which node of the job each is, where it runs, how it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nemo_runspec.backends.dgxcloud.api import Row, RunaiApi
from nemo_runspec.remote.provider import Handle
from nemo_runspec.transport.web import Refused

_ROLE = re.compile(r"-(master|worker|launcher)-(\d+)$")
"""How Kubeflow names the pods of a distributed workload."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod. `index`: its node's rank in the job; `node`: the machine, '' while it has none."""

    name: str
    index: int
    node: str
    phase: str
    container: str


def pods_of(api: RunaiApi, id: str) -> list[Pod]:
    """The pods of a workload by their ranks; none of one that run:ai has no more. One request."""
    try:
        found = [_pod(row) for row in api.pods(id)]
    except Refused as error:
        if error.status != 404:
            raise
        return []
    return sorted(found, key=lambda pod: (pod.index, pod.name))


def namespace_of(handle: Handle, workload: Mapping[str, Any] | None = None) -> str:
    """The namespace of a job's pods: as run:ai says of its project or its workload, else as run:ai names them."""
    said = handle.get("namespace") or (workload or {}).get("namespace")
    return str(said or f"runai-{handle.get('project')}")


def rank_of(name: str) -> int:
    """A pod's rank by its name: the master is the first, workers follow; the only pod of a training is the first."""
    role = _ROLE.search(name)
    if role is None or role[1] == "master":
        return 0
    return int(role[2]) + 1


def _pod(row: Row) -> Pod:
    name = str(row.get("name"))
    containers = [each for each in row.get("containers") or () if isinstance(each, dict)]
    container = str(containers[0].get("name") or "") if containers else ""
    return Pod(name, rank_of(name), str(row.get("nodeName") or ""), str(row.get("k8sPhase") or ""), container)
