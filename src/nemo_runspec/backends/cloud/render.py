"""The exact texts of a plan for a platform of pods: the job's script, what starts it in its pods, the payload. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.base import RenderedFile, Rendering
from nemo_runspec.backends.cloud.placeholders import as_text, explained, fill
from nemo_runspec.plans.model import Plan

PAYLOAD = "job.json"
"""The body of the request that makes the job."""


def render_pods(plan: Plan, payload: Mapping[str, Any], values: Mapping[str, Any], *, url: str, path: str) -> Rendering:
    """The texts, as far as they are known.

    Args:
        payload: with its placeholders; `values` of them, by their names.
        url: of the platform, a placeholder where only a login knows it; below it, `path` is where the job is made.
    """
    from nemo_runspec.backends.cloud.pod.program import pod_files

    filled, base = fill(payload, values), fill(url, values)
    files = (*pod_files(plan, kind=plan.executor), RenderedFile("payload", PAYLOAD, as_text(filled), "json"))
    return Rendering(files, ("POST", f"{base}{path}"), explained([filled, base]))
