"""A job that was evicted, or whose node was at fault, made once more: the same texts, another attempt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.cloud.resubmit import read_sent
from nemo_runspec.backends.lepton.api import LeptonApi, id_of, name_of, section
from nemo_runspec.backends.lepton.payload import ATTEMPT_LABEL
from nemo_runspec.backends.lepton.submit import submit_once
from nemo_runspec.backends.provider import Handle


def resubmit(api: LeptonApi, handle: Handle, avoid: Sequence[str], folder: Path, *, resumed: bool = False) -> Handle:
    """Submits the job's payload again; the handle with its id.

    Args:
        handle: as `next_attempt` has made it.
        avoid: nodes, by id or name, that it is not to run on.
        resumed: it may have been sent.

    Raises:
        UserError: what was sent is not kept any more, or Lepton refuses it now.
    """
    payload = read_sent(folder, "Lepton", "envs", handle)
    meta, spec = section(payload, "metadata"), payload["spec"]
    payload["metadata"] = {**meta, "labels": {**section(meta, "labels"), ATTEMPT_LABEL: str(PodHandle(handle).attempt)}}
    groups = section(spec, "affinity").get("allowed_dedicated_node_groups") or []
    if avoid and groups:
        nodes = api.nodes(str(groups[0]))
        left = sorted(id_of(node) for node in nodes if not {id_of(node), name_of(node)} & set(avoid))
        if len(left) >= int(spec.get("parallelism") or 1):
            spec["affinity"]["allowed_nodes_in_node_group"] = left
    return submit_once(api, handle, payload, lambda _: None, sent=resumed)


def next_attempt(handle: Handle, number: int) -> dict[str, Any]:
    """As `CloudProvider.next_attempt`: the same name, another attempt, and none of the jobs before."""
    job = PodHandle(handle)
    return job.next(number, earlier=[*(handle.get("earlier") or ()), *filter(None, [job.id])])
