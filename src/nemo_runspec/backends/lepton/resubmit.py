"""A job that was evicted, or whose node was at fault, made once more: the same texts, another attempt."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from nemo_runspec.backends.cloud.pod.program import ATTEMPT_VARIABLE
from nemo_runspec.backends.cloud.render import PAYLOAD
from nemo_runspec.backends.lepton.api import LeptonApi, id_of, name_of, section
from nemo_runspec.backends.lepton.payload import ATTEMPT_LABEL
from nemo_runspec.backends.lepton.submit import submit_once
from nemo_runspec.errors import UserError
from nemo_runspec.regular import read_json
from nemo_runspec.remote.provider import Handle


def again(api: LeptonApi, handle: Handle, avoid: Sequence[str], folder: Path, *, resumed: bool = False) -> Handle:
    """Submits the job's payload again; the new handle, its `attempt` one more.

    Args:
        avoid: nodes, by id or name, that it is not to run on. `resumed`: it may have been sent.

    Raises:
        UserError: what was sent is not kept any more, or Lepton refuses it now.
    """
    found = further(handle)
    attempt = str(found["attempt"])
    payload = _sent(folder)
    payload["metadata"]["labels"] = {**section(payload, "metadata", "labels"), ATTEMPT_LABEL: attempt}
    others = [each for each in payload["spec"].get("envs") or () if each.get("name") != ATTEMPT_VARIABLE]
    payload["spec"]["envs"] = [{"name": ATTEMPT_VARIABLE, "value": attempt}, *others]
    groups = section(payload, "spec", "affinity").get("allowed_dedicated_node_groups") or []
    if avoid and groups:
        left = _others(api, str(groups[0]), set(avoid))
        if len(left) >= int(payload["spec"].get("parallelism") or 1):
            payload["spec"]["affinity"]["allowed_nodes_in_node_group"] = left
    return submit_once(api, found, payload, lambda _: None, sent=resumed)


def further(handle: Handle) -> dict[str, Any]:
    """As `CloudProvider.next_attempt`: the same name, another attempt, and none of the jobs before."""
    earlier = [*(handle.get("earlier") or ()), *([handle["id"]] if handle.get("id") else ())]
    fresh = {key: value for key, value in handle.items() if key not in ("id", "since", "doubt")}
    return {**fresh, "attempt": int(handle.get("attempt") or 0) + 1, "earlier": earlier}


def _sent(folder: Path) -> dict[str, Any]:
    file = folder / PAYLOAD
    try:
        payload = read_json(file)
    except (OSError, ValueError):
        raise UserError("what was sent to Lepton is not kept", where=str(file), remedy="nemotron jobs retry") from None
    if not isinstance(payload, dict) or not section(payload, "metadata") or not section(payload, "spec"):
        raise UserError("what was sent to Lepton is damaged", where=str(file), remedy="nemotron jobs retry")
    return payload


def _others(api: LeptonApi, group: str, avoid: Collection[str]) -> list[str]:
    """Ids of the nodes of a group that are not avoided."""
    nodes = [node for node in api.nodes(group) if not {id_of(node), name_of(node)} & set(avoid)]
    return sorted(id_of(node) for node in nodes)
