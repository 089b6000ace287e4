"""The exact texts of a plan for Lepton: the job's script, what starts it in its pods, and the payload. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.base import RenderedFile, Rendering
from nemo_runspec.backends.lepton.payload import WORKSPACE, as_text, fill, holes, payload
from nemo_runspec.planning.model import Plan

PAYLOAD = "job.json"


def render(plan: Plan, facts: Mapping[str, Any] | None = None, url: str = "") -> Rendering:
    """The texts, as far as they are known.

    Args:
        facts: what the platform knows, by the names of the holes. `url`: of the workspace.
    """
    from nemo_runspec.backends.cloud.pod.program import pod_files

    tree = fill(payload(plan), facts or {})
    files = (*pod_files(plan, kind="lepton"), RenderedFile("payload", PAYLOAD, as_text(tree), "json"))
    where = f"{WORKSPACE}: URL of the workspace, from LEPTON_WORKSPACE_ID and LEPTON_WORKSPACE_URL when it is submitted"
    left = holes(plan, tree) if url else (*holes(plan, tree), where)
    return Rendering(files, ("POST", f"{url or WORKSPACE}/jobs"), left)
