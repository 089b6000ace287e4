"""What is asked of run:ai for a plan before it is submitted, and the handle of its job."""

from __future__ import annotations

from typing import Any

from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.fields import DgxCloudTarget
from nemo_runspec.backends.dgxcloud.payload import CLUSTER, PROJECT, kind_of
from nemo_runspec.backends.dgxcloud.secret_names import secret_facts
from nemo_runspec.backends.provider import Say
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.reading import table, text


def place_of(plan: Plan) -> dict[str, Any]:
    """A job's handle, as far as it is known before anything is asked. Plain JSON without a secret."""
    from nemo_runspec.backends.cloud.handle import handle_of

    target = target_of(plan, DgxCloudTarget)
    return {
        **handle_of(plan),
        "base_url": target.base_url,
        "client_id": target.client_id,
        "project": target.project_name,
        "kind": kind_of(plan.resources.nodes),
        "kube": target.kube_apiserver_url,
        **_way_to_logs(plan),
    }


def asked(api: RunaiApi, plan: Plan, say: Say) -> tuple[dict[str, Any], dict[str, Any]]:
    """What fills the placeholders of a plan but its cargo, and what the job's handle gains by it. One or two requests.

    Raises:
        UserError: there is no such project or credential. Unreachable: run:ai does not say enough of it.
    """
    target = target_of(plan, DgxCloudTarget)
    project = api.project(target.project_name)
    id, cluster = text(project.get("id")), text(project.get("clusterId"))
    if not id or not cluster:
        what = f"run:ai does not say the id, or the cluster, of project '{target.project_name}'"
        raise Unreachable(what, where=target.base_url, remedy="try again later")
    namespace = text(table(project.get("status")).get("namespace")) or text(project.get("requestedNamespace"))
    facts = {PROJECT: id, CLUSTER: cluster, **secret_facts(api, target.secret_vars.values(), id, say)}
    more = {"project_id": id, "cluster_id": cluster, **({"namespace": namespace} if namespace else {})}
    return facts, more


def _way_to_logs(plan: Plan) -> dict[str, Any]:
    """Where a helper puts the job's logs, and what it needs for that."""
    target = target_of(plan, DgxCloudTarget)
    base = target.output_url or target.code_url
    if not base:
        return {}
    place = {"endpoint": target.s3_endpoint, "region": target.s3_region}
    return {
        "logs_url": f"{base.rstrip('/')}/{plan.name}/logs",
        "s3": {name: value for name, value in place.items() if value},
        "image": target.container_image,
        "pvcs": [dict(claim) for claim in target.pvcs],
    }
