"""The body of `POST /jobs`, made of a plan alone, and its texts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.base import Rendering
from nemo_runspec.backends.cloud.placeholders import CARGO, Placeholder
from nemo_runspec.backends.cloud.render import render_pods
from nemo_runspec.backends.lepton.fields import LeptonTarget
from nemo_runspec.backends.lepton.spec import make_spec, merged
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of

WORKSPACE = Placeholder(
    "WORKSPACE", "URL of the workspace, from LEPTON_WORKSPACE_ID and LEPTON_WORKSPACE_URL when it is submitted"
)
JOB_LABEL, ATTEMPT_LABEL = "nemotron-job", "nemotron-attempt"


def render(plan: Plan, values: Mapping[str, Any] | None = None) -> Rendering:
    """The exact texts of a plan, as far as they are known. `values`: of the placeholders, by their names."""
    return render_pods(plan, payload(plan), values or {}, url=WORKSPACE, path="/jobs")


def payload(plan: Plan) -> dict[str, Any]:
    """The body of `POST /jobs`, with its placeholders."""
    from nemo_runspec.backends.cloud.pod.program import boot_program

    target = target_of(plan, LeptonTarget)
    command = ["/bin/bash", "-c", boot_program(), "nemotron", CARGO]
    secrets = [secret.name for secret in plan.secrets if secret.origin != "missing"]
    spec = make_spec(target, plan.resources.nodes, secrets, command, plan.resources.gpus_per_node)
    metadata = {"id": plan.name, "name": plan.name, "labels": {JOB_LABEL: plan.name, ATTEMPT_LABEL: "0"}}
    return {"metadata": metadata, "spec": merged(spec, target.custom_spec).spec}
