"""Lists of a profile's application: `nemotron dgxcloud projects | pvcs | workloads | credentials`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from nemo_runspec.backends.dgxcloud.api import RunaiApi, connect
from nemo_runspec.backends.listing import Listing, ListingRequest, ListingRow, Listings
from nemo_runspec.errors import UserError
from nemo_runspec.transport.reading import table, text, texts

_NEWEST = 100
"""Workloads that are listed."""


def connected(env: Mapping[str, Any], profile: str | None, env_file: str | None) -> RunaiApi:
    """The control plane of a profile.

    Raises:
        UserError: the profile does not say which, or its client secret is nowhere.
    """
    for key in ("base_url", "client_id"):
        if not env.get(key):
            raise UserError(f"profile '{profile}' has no {key}", where=env_file)
    given = {"client_secret": str(env["client_secret"])} if env.get("client_secret") else None
    where = {"profile": profile, "env_file": env_file, "kube": env.get("kube_apiserver_url") or ""}
    return connect({"base_url": env["base_url"], "client_id": env["client_id"], **where}, given)


def _projects(request: ListingRequest[RunaiApi]) -> Iterator[ListingRow]:
    for row in request.api.projects():
        status = table(row.get("status"))
        yield {
            "project": row.get("name"),
            "id": row.get("id"),
            "cluster": row.get("clusterId"),
            "phase": status.get("phase") or "",
            "namespace": status.get("namespace") or row.get("requestedNamespace") or "",
        }


def _pvcs(request: ListingRequest[RunaiApi]) -> Iterator[ListingRow]:
    for row in request.api.claims(_project_id(request)):
        meta, spec = table(row.get("meta")), table(row.get("spec"))
        yield {
            "claim": spec.get("claimName") or meta.get("name"),
            "scope": meta.get("scope") or "",
            "project": meta.get("projectName") or meta.get("projectId") or "",
            "read_only": bool(spec.get("readOnly")),
            "path": spec.get("path") or "",
        }


def _workloads(request: ListingRequest[RunaiApi]) -> Iterator[ListingRow]:
    project = request.env.get("project_name")
    for row in islice(request.api.workloads([f"projectName=={project}"] if project else []), _NEWEST):
        yield {
            "workload": row.get("name"),
            "phase": row.get("phase") or row.get("actualPhase") or "",
            "type": row.get("type") or "",
            "project": row.get("projectName") or "",
            "created": row.get("createdAt") or "",
            "id": row.get("id") or row.get("workloadId"),
        }


def _credentials(request: ListingRequest[RunaiApi]) -> Iterator[ListingRow]:
    for row in request.api.credentials(_project_id(request)):
        meta, spec = table(row.get("meta")), table(row.get("spec"))
        kind = next((name for name in spec if isinstance(spec[name], Mapping)), meta.get("kind") or "")
        yield {
            "credential": meta.get("name"),
            "kind": text(kind),
            "scope": meta.get("scope") or "",
            "keys": texts(table(spec.get(text(kind))).get("keys")),
        }


def _project_id(request: ListingRequest[RunaiApi]) -> str:
    """Assets are asked for by the profile's project, so that those of others do not stand between."""
    named = request.env.get("project_name")
    return text(request.api.project(str(named)).get("id")) if named else ""


_PROJECT = {"PROJECT": "project", "ID": "id", "PHASE": "phase", "NAMESPACE": "namespace", "CLUSTER": "cluster"}
_CLAIM = {"CLAIM": "claim", "SCOPE": "scope", "PROJECT": "project", "READ ONLY": "read_only", "PATH": "path"}
_WORKLOAD = {"WORKLOAD": "workload", "PHASE": "phase", "TYPE": "type", "CREATED": "created", "ID": "id"}
_CREDENTIAL = {"CREDENTIAL": "credential", "KIND": "kind", "SCOPE": "scope", "KEYS": "keys"}

_LISTS = (
    Listing("projects", "Projects that the profile's application sees.", _PROJECT, _projects),
    Listing("pvcs", "Persistent volume claims that jobs of the profile's project may mount.", _CLAIM, _pvcs),
    Listing("workloads", f"Workloads of the profile's project, the {_NEWEST} newest.", _WORKLOAD, _workloads),
    Listing("credentials", "Credentials that run:ai keeps, for secret_vars.", _CREDENTIAL, _credentials),
)

LISTINGS = Listings(connected, _LISTS, needs_profile=True)
"""The address and the application are a profile's."""
