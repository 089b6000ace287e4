"""Prepares a submission: refuses what need not be asked, makes the handle, asks run:ai for what it alone knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nemo_runspec.backends.cloud.api import JsonTable
from nemo_runspec.backends.cloud.handle import handle_of
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.credentials import KEY
from nemo_runspec.backends.dgxcloud.fields import DgxCloudTarget
from nemo_runspec.backends.dgxcloud.payload import CLUSTER, PROJECT, credential_of, credential_placeholder, kind_of
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.paths import expanded
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.reading import table, tables, text
from nemo_runspec.transport.web import Refused

_PREFIX: Mapping[str, str] = {
    "genericsecret": "genericsecret", "password": "password", "accesskey": "accesskey", "dockerregistry": "dockerreg",
}  # fmt: skip
"""How the secret's name begins, by the credential's kind (run:ai's documentation of credentials)."""

_USUAL = "genericsecret"


def check(plan: Plan) -> None:
    """Refuses a plan whose storage is said to be mounted here, and is not. No network."""
    from nemo_runspec.backends.dgxcloud.logs.pvc import mounted

    here = target_of(plan, DgxCloudTarget).run_dir_here
    if here and not mounted(expanded(here)):
        what = f"run_dir_here {here!r} is no directory of this machine"
        remedy = "mount the claim's storage there, or take the key out of the profile"
        raise UserError(what, remedy=remedy, key="run_dir_here")


def travels_not(plan: Plan) -> list[str]:
    """A line for each secret that was found here and does not go with the job: run:ai keeps none of that name."""
    kept = set(target_of(plan, DgxCloudTarget).secret_vars)
    found = [secret.name for secret in plan.secrets if secret.name not in kept | {KEY} and secret.origin != "missing"]
    return [
        f"{name} was found here and does not travel: the job runs without it. To give it one, keep it in run:ai "
        f'(Credentials, generic secret) and set secret_vars = {{ {name} = "my-credential/{name}" }}'
        for name in found
    ]


def place_of(plan: Plan) -> dict[str, Any]:
    """A job's handle, as far as it is known before anything is asked. Plain JSON without a secret."""
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
    """What fills the placeholders of a plan but its upload, and what the job's handle gains by it. One or two requests.

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


def secret_facts(api: RunaiApi, references: Iterable[str], project_id: str, say: Say) -> dict[str, str]:
    """Placeholder of each credential → name of the Kubernetes secret that run:ai makes of it. One question for all.

    Raises:
        UserError: run:ai has no such credential; the error names those there are.
    """
    wanted = list(dict.fromkeys(references))
    known = _known(api, project_id, say) if wanted else None
    return {credential_placeholder(reference): _secret_of(credential_of(reference), known) for reference in wanted}


def _known(api: RunaiApi, project_id: str, say: Say) -> dict[str, str] | None:
    """Credential → secret; None where the application may not ask."""
    try:
        rows = api.credentials(project_id)
    except Refused as error:
        if error.status not in (403, 404):
            raise
        say(f"warning: run:ai does not tell its credentials ({error.what}); their usual secret names are taken")
        return None
    return {name: _kubernetes_name(row) for row in rows if (name := text(_meta(row).get("name")))}


def _secret_of(credential: str, known: Mapping[str, str] | None) -> str:
    if known is None:
        return f"{_USUAL}-{credential}"
    if credential in known:
        return known[credential]
    if credential in known.values():  # the Kubernetes name itself
        return credential
    raise UserError(
        f"secret_vars: run:ai has no credential '{credential}'; there are: {', '.join(sorted(known)) or 'none'}",
        remedy=did_you_mean(credential, known) or "make one in run:ai (Credentials, generic secret) for the project",
    )


def _kubernetes_name(row: JsonTable) -> str:
    spec = table(row.get("spec"))
    named = [text(part.get("existingSecretName")) for part in (spec, *map(table, spec.values()))]
    named += [text(each.get("name")) for each in tables(table(row.get("clusterInfo")).get("resources"))]
    meta = _meta(row)
    kind = text(meta.get("kind")).replace("-", "").lower()
    return next(filter(None, named), f"{_PREFIX.get(kind, _USUAL)}-{text(meta.get('name'))}")


def _meta(row: JsonTable) -> JsonTable:
    return table(row.get("meta")) or row
