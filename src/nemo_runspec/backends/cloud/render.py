"""The exact texts of a plan for a platform of pods: the job's script, what starts it in its pods, the payload. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.base import RenderedFile, Rendering
from nemo_runspec.backends.cloud.fields import CloudTarget
from nemo_runspec.backends.cloud.request import as_text
from nemo_runspec.placeholders import explained, fill
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.script.programs import checks_programs, pod_programs

PAYLOAD = "job.json"
"""The body of the request that makes the job."""


def render(plan: Plan, values: Mapping[str, Any] | None = None) -> Rendering:
    """The texts, as far as they are known. `values`: of the payload's placeholders, by their names."""
    from nemo_runspec.backends.cloud.pod.program import node_program, pod_files

    request = target_of(plan, CloudTarget).request(plan)
    payload, url = fill(request.body, values or {}), fill(request.url, values or {})
    platform = node_program(plan.executor)
    files = (*pod_files(plan, platform), RenderedFile("payload", PAYLOAD, as_text(payload), "json"))
    programs = pod_programs(platform, *checks_programs(plan))
    return Rendering(files, ("POST", f"{url}{request.path}"), explained([payload, url]), programs, PAYLOAD)
