"""The workload that is posted for a plan, and its texts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nemo_runspec.backends.base import Rendering
from nemo_runspec.backends.cloud.placeholders import CARGO, Placeholder
from nemo_runspec.backends.cloud.render import render_pods
from nemo_runspec.backends.dgxcloud.fields import DgxCloudTarget
from nemo_runspec.backends.dgxcloud.spec import ATTEMPT, BOOT, DISTRIBUTED, TRAININGS, Spec, base_spec, merge
from nemo_runspec.backends.dgxcloud.spec import CARGO as CARGO_PIECE
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of

PROJECT, CLUSTER = "PROJECT_ID", "CLUSTER_ID"

BASE_URL = "BASE_URL"
"""Shown for a profile that names no control plane yet."""


def kind_of(nodes: int) -> str:
    """Which of run:ai's kinds of workload a job is."""
    return DISTRIBUTED if nodes > 1 else TRAININGS


def render(plan: Plan, values: Mapping[str, Any] | None = None) -> Rendering:
    """The exact texts of a plan, as far as they are known. `values`: of the placeholders, by their names."""
    url = target_of(plan, DgxCloudTarget).base_url.rstrip("/") or BASE_URL
    path = f"/workloads/{kind_of(plan.resources.nodes)}"
    return render_pods(plan, payload_of(plan), values or {}, url=url, path=path)


def payload_of(plan: Plan) -> dict[str, Any]:
    """The body of `POST /workloads/{kind}`, with its placeholders."""
    from nemo_runspec.backends.cloud.pod.program import boot_program

    target = target_of(plan, DgxCloudTarget)
    variables = [
        {"name": BOOT, "value": boot_program()},
        {"name": ATTEMPT, "value": "0"},
        CARGO,
        *(_reference(name, reference) for name, reference in target.secret_vars.items()),
    ]
    spec = base_spec(
        image=target.container_image,
        nodes=plan.resources.nodes,
        gpus=plan.resources.gpus_per_node,
        pvcs=target.pvcs,
        framework=target.distributed_framework,
        variables=variables,
    )
    project = target.project_name or "the project"
    return {
        "name": plan.name,
        "projectId": Placeholder(PROJECT, f"the id of project {project}, asked for when it is submitted"),
        "clusterId": Placeholder(CLUSTER, f"the id of the cluster of {project}, asked for when it is submitted"),
        **({"masterSpecSameAsWorker": True} if plan.resources.nodes > 1 else {}),
        "spec": merge(spec, target.custom_spec).spec,
    }


def cargo_variables(words: Iterable[str]) -> list[Spec]:
    """The words of a cargo as the variables that boot.sh reads them from."""
    return [{"name": f"{CARGO_PIECE}{number}", "value": word} for number, word in enumerate(words)]


def credential_of(reference: str) -> str:
    """The credential of `credential/key`."""
    return reference.partition("/")[0]


def credential_placeholder(reference: str) -> Placeholder:
    """Stands for the cluster's secret of a reference's credential."""
    name = credential_of(reference)
    return Placeholder(f"SECRET:{name}", f"the cluster's secret of credential {name}, asked for when it is submitted")


def _reference(name: str, reference: str) -> Spec:
    return {"name": name, "secret": {"name": credential_placeholder(reference), "key": reference.partition("/")[2]}}
