"""Submits a job that failed through no fault of its own once more, exactly as it was sent, but for what must differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.cloud.resubmit import read_sent
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.payload import VARIABLES, Spec
from nemo_runspec.backends.dgxcloud.submit import submit
from nemo_runspec.backends.provider import Handle

_HOSTNAME = "kubernetes.io/hostname"
"""The label by which Kubernetes knows a machine."""


def resubmit(api: RunaiApi, handle: Handle, avoid: Sequence[str], folder: Path) -> dict[str, Any]:
    """Submits it once more; the handle with its id.

    Args:
        handle: as `next_attempt` has made it.
        avoid: machines it is not to run on.
        folder: with the workload that was sent.

    Raises:
        UserError: what was sent is not there any more; or run:ai refuses it.
    """
    payload = {**read_sent(folder, "run:ai", VARIABLES, handle), "name": handle["workload"]}
    if avoid:
        avoid_nodes(payload["spec"], avoid)
    return submit(api, handle, payload)


def next_attempt(handle: Handle, number: int) -> dict[str, Any]:
    """As `CloudProvider.next_attempt`: run:ai knows the next attempt by another name."""
    job = PodHandle(handle)
    return job.next(number, workload=f"{job.name}-r{number}")


def avoid_nodes(spec: Spec, nodes: Sequence[str]) -> None:
    """Adds to a spec that it must not run on these machines; every alternative of its own affinity gets the rule."""
    rule = {"key": _HOSTNAME, "operator": "NotIn", "values": list(nodes)}
    terms = (spec.get("nodeAffinityRequired") or {}).get("nodeSelectorTerms") or [{}]
    spec["nodeAffinityRequired"] = {
        "nodeSelectorTerms": [
            {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), rule]} for term in terms
        ]
    }
