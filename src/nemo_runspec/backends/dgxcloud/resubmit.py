"""Submits a job that failed through no fault of its own once more, exactly as it was sent, but for what must differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_runspec.backends.cloud.resubmit import next_handle, read_sent
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.payload import VARIABLES, Spec
from nemo_runspec.backends.dgxcloud.submit import submit
from nemo_runspec.backends.provider import Handle

_HOSTNAME = "kubernetes.io/hostname"
"""The label by which Kubernetes knows a machine."""


def resubmit(api: RunaiApi, handle: Handle, avoid: Sequence[str], folder: Path) -> dict[str, Any]:
    """Submits it once more; the new handle.

    Args:
        avoid: machines it is not to run on. `folder`: with the workload that was sent.

    Raises:
        UserError: what was sent is not there any more; or run:ai refuses it.
    """
    found = next_attempt(handle)
    payload = {**read_sent(folder, "run:ai", VARIABLES, found), "name": found["workload"]}
    if avoid:
        avoid_nodes(payload["spec"], avoid)
    return submit(api, found, payload)


def next_attempt(handle: Handle) -> dict[str, Any]:
    """As `CloudProvider.next_attempt`: run:ai knows the next attempt by another name."""
    found = next_handle(handle)
    return {**found, "workload": f"{handle['name']}-r{found['attempt']}"}


def avoid_nodes(spec: Spec, nodes: Sequence[str]) -> None:
    """Adds to a spec that it must not run on these machines; every alternative of its own affinity gets the rule."""
    rule = {"key": _HOSTNAME, "operator": "NotIn", "values": list(nodes)}
    terms = (spec.get("nodeAffinityRequired") or {}).get("nodeSelectorTerms") or [{}]
    spec["nodeAffinityRequired"] = {
        "nodeSelectorTerms": [
            {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), rule]} for term in terms
        ]
    }
