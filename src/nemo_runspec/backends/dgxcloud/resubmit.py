"""Submits a job that failed through no fault of its own once more, exactly as it was sent, but for what must differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_runspec.backends.cloud.render import PAYLOAD
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.spec import ATTEMPT, VARIABLES, Spec
from nemo_runspec.backends.dgxcloud.submit import submit
from nemo_runspec.errors import UserError
from nemo_runspec.regular import read_json
from nemo_runspec.remote.provider import Handle

_HOSTNAME = "kubernetes.io/hostname"
"""The label by which Kubernetes knows a machine."""


def again(api: RunaiApi, handle: Handle, avoid: Sequence[str], folder: Path) -> dict[str, Any]:
    """Submits it once more; the new handle.

    Args:
        avoid: machines it is not to run on. `folder`: with the workload that was sent.

    Raises:
        UserError: what was sent is not there any more; or run:ai refuses it.
    """
    found = further(handle)
    payload = sent(folder)
    payload["name"] = found["workload"]
    spec = payload["spec"]
    for variable in spec.get(VARIABLES) or ():
        if variable.get("name") == ATTEMPT:
            variable["value"] = str(found["attempt"])
    if avoid:
        without(spec, avoid)
    return submit(api, found, payload)


def further(handle: Handle) -> dict[str, Any]:
    """As `CloudProvider.next_attempt`: run:ai knows the next attempt by another name."""
    attempt = int(handle.get("attempt") or 0) + 1
    first = {key: value for key, value in handle.items() if key != "id"}
    return {**first, "workload": f"{handle['name']}-r{attempt}", "attempt": attempt}


def sent(folder: Path) -> dict[str, Any]:
    """The workload as it was sent the first time.

    Raises:
        UserError: it is not there, or is no such thing.
    """
    file = folder / PAYLOAD
    try:
        payload = read_json(file)
        return {**payload, "spec": dict(payload["spec"])}
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError("the workload that was sent is not there any more", where=str(file)) from None


def without(spec: Spec, nodes: Sequence[str]) -> None:
    """Adds to a spec that it must not run on these machines; every alternative of its own affinity gets the rule."""
    rule = {"key": _HOSTNAME, "operator": "NotIn", "values": list(nodes)}
    terms = (spec.get("nodeAffinityRequired") or {}).get("nodeSelectorTerms") or [{}]
    spec["nodeAffinityRequired"] = {
        "nodeSelectorTerms": [
            {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), rule]} for term in terms
        ]
    }
