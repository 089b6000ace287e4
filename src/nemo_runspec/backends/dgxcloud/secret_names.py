"""The Kubernetes secret that run:ai makes of a credential: what a workload's variable has to name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nemo_runspec.backends.dgxcloud.api import Row, RunaiApi
from nemo_runspec.backends.dgxcloud.payload import credential_of, credential_placeholder
from nemo_runspec.backends.provider import Say
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.transport.reading import table, tables, text
from nemo_runspec.transport.web import Refused

_PREFIX: Mapping[str, str] = {
    "generic-secret": "genericsecret",
    "genericSecret": "genericsecret",
    "password": "password",
    "access-key": "accesskey",
    "accessKey": "accesskey",
    "docker-registry": "dockerreg",
    "dockerRegistry": "dockerreg",
}
"""How the secret's name begins, by the credential's kind (run:ai's documentation of credentials)."""

_USUAL = "genericsecret"


def secret_facts(api: RunaiApi, references: Iterable[str], project_id: str, say: Say) -> dict[str, str]:
    """Placeholder of each credential → name of its Kubernetes secret. One question for all of them, none for none.

    Raises:
        UserError: run:ai has no such credential; the error names those there are.
    """
    wanted = list(dict.fromkeys(references))
    if not wanted:
        return {}
    known = _known(api, project_id, say)
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


def _kubernetes_name(row: Row) -> str:
    spec = table(row.get("spec"))
    named = [text(part.get("existingSecretName")) for part in (spec, *map(table, spec.values()))]
    named += [text(each.get("name")) for each in tables(table(row.get("clusterInfo")).get("resources"))]
    meta = _meta(row)
    usual = f"{_PREFIX.get(text(meta.get('kind')), _USUAL)}-{text(meta.get('name'))}"
    return next(filter(None, named), usual)


def _meta(row: Row) -> Row:
    return table(row.get("meta")) or row
