"""A workload's pods: which node of the job each is, where it runs, how it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nemo_runspec.backends.cloud.renewal import unless_missing
from nemo_runspec.backends.dgxcloud.api import Row, RunaiApi
from nemo_runspec.backends.provider import Handle
from nemo_runspec.transport.reading import tables, text

_ROLE = re.compile(r"-(master|worker|launcher)-(\d+)$")
"""How Kubeflow names the pods of a distributed workload."""

_DIGITS = 9
"""Of a rank: no workload has so many pods."""


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
    found = [pod for row in unless_missing(api.pods, id) or () if (pod := _pod(row)).name]
    return sorted(found, key=lambda pod: (pod.index, pod.name))


def namespace_of(handle: Handle, workload: Mapping[str, Any] | None = None) -> str:
    """The namespace of a job's pods: as run:ai says of its project or its workload, else as run:ai names them."""
    said = text(handle.get("namespace")) or text((workload or {}).get("namespace"))
    return str(said or f"runai-{handle.get('project')}")


def rank_of(name: str) -> int:
    """A pod's rank by its name: the master is the first, workers follow; the only pod of a training is the first."""
    role = _ROLE.search(name)
    if role is None or role[1] == "master":
        return 0
    return int(role[2][:_DIGITS]) + 1


def _pod(row: Row) -> Pod:
    name, containers = text(row.get("name")), tables(row.get("containers"))
    container = text(containers[0].get("name")) if containers else ""
    return Pod(name, rank_of(name), text(row.get("nodeName")), text(row.get("k8sPhase")), container)
