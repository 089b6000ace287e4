"""The exact texts of a plan for run:ai: the job's script, what starts it in its pods, and the workload. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.base import RenderedFile, Rendering
from nemo_runspec.backends.dgxcloud.fields import DgxCloudTarget
from nemo_runspec.backends.dgxcloud.payload import Hole, as_text, fill, holes_of, kind_of, payload_of
from nemo_runspec.planning.model import Plan

PAYLOAD = "job.json"

BASE_URL = "BASE_URL"
"""The hole of a profile that names no control plane yet."""


def render(plan: Plan, facts: Mapping[Hole, Any] | None = None) -> Rendering:
    """The texts, as far as they are known.

    Args:
        facts: what the platform knows, by its holes.
    """
    target: DgxCloudTarget = plan.target
    payload = fill(payload_of(plan), facts or {})
    files = (*scripts(plan), RenderedFile("workload", PAYLOAD, as_text(payload), "json"))
    url = f"{target.base_url.rstrip('/') or BASE_URL}/workloads/{kind_of(plan.resources.nodes)}"
    return Rendering(files, ("POST", url), holes_of(plan, payload))


def scripts(plan: Plan) -> tuple[RenderedFile, ...]:
    """`job.sh`, `pod.sh` and, where there is data to be fetched or kept, what says which."""
    from nemo_runspec.backends.cloud.pod.program import pod_files

    return pod_files(plan, kind="dgxcloud")
