"""Tokens, projects, claims and credentials of the control plane."""

from __future__ import annotations

import secrets
import time
import uuid
from typing import Any

from labs.runai.life import GPUS, NODES
from labs.runai.lists import listed, only
from labs.runai.model import TENANT, iso
from labs.runai.store import Store
from labs.web import Answer, HttpError, Request, route

_TOKEN_FIELDS = ("granttype", "clientid", "clientsecret", "appid", "appsecret", "refreshtoken")
SPELLINGS = {
    "clientId": ("client_credentials", "clientId", "clientSecret"),
    "clientID": ("client_credentials", "clientID", "clientSecret"),
    "AppId": ("app_token", "AppId", "AppSecret"),
}
"""Of NeMo-Run, of the OpenAPI document, and of NVIDIA's runapy 1.224 (`api_client.py`)."""
_PROJECT_FIELDS = ("name", "clusterId", "departmentId", "parentId", "createdAt", "phase")
_ASSET_FILTERS = ("name", "scope", "projectId", "departmentId", "clusterId", "usageInfo", "statusInfo")


class Assets(Store):
    """The server's part for everything that workloads need."""

    @route("POST", "/token")
    def token(self, request: Request) -> Any:
        """TokenRequest; `clientID` in the document, `clientId` in NeMo-Run: Go reads both, unless `spelling` says."""
        if self.spelling:
            return self._strict_token(_object(request.json()))
        given = {str(name).lower(): value for name, value in _object(request.json()).items()}
        if unknown := set(given) - set(_TOKEN_FIELDS):
            raise HttpError(400, f"Bad request - unknown field {sorted(unknown)[0]}")
        if given.get("granttype") != "client_credentials":
            raise HttpError(400, "Bad request - grantType must be client_credentials")
        if given.get("clientid") != self.client_id or given.get("clientsecret") != self.client_secret:
            raise HttpError(self.bad_credentials_status, "Invalid client or Invalid client credentials")
        life = max(int(self.token_lifetime), 1)
        return {"accessToken": self._token(), "idToken": "", "refreshToken": "", "expiresIn": life}

    def _strict_token(self, given: dict[str, Any]) -> Any:
        """Only what is spelled as this control plane has it."""
        grant, name, secret = SPELLINGS[self.spelling]
        if set(given) != {"grantType", name, secret} or given["grantType"] != grant:
            raise HttpError(400, "Bad request - grantType and its fields do not fit")
        if (given[name], given[secret]) != (self.client_id, self.client_secret):
            raise HttpError(self.bad_credentials_status, "Invalid client or Invalid client credentials")
        return {"accessToken": self._token()}

    def _token(self) -> str:
        token = f"lab.{secrets.token_urlsafe(32)}"
        self.tokens[token] = time.time() + self.token_lifetime
        return token

    # Projects and assets

    @route("GET", "/org-unit/projects")
    def list_projects(self, request: Request) -> Any:
        """A page of all projects; the lab's is not on the first."""
        entries = [project.json() for project in self.projects]
        return listed("projects", entries, request.params, fields=_PROJECT_FIELDS)

    @route("GET", "/clusters")
    def list_clusters(self, request: Request) -> Any:
        """An array; no paging."""
        only(request.params, "verbosity")
        status = {"state": "Connected", "conditions": []}
        whose = {"tenantId": TENANT, "createdAt": iso(0.0), "updatedAt": iso(0.0)}
        found = {"uuid": self.cluster_id, "name": "lab", "domain": self.origin, "status": status, "version": "2.24"}
        return [{**found, **whose}]

    @route("GET", "/node-pools")
    def list_node_pools(self, request: Request) -> Any:
        """The one node pool."""
        who = {"createdBy": "lab", "createdAt": iso(0.0), "updatedBy": "lab", "updatedAt": iso(0.0)}
        label = {"labelKey": "runai/node-pool", "labelValue": "default", "isDefault": True, "tenantId": TENANT}
        pool = {"id": "1", "name": "default", "clusterId": self.cluster_id, "clusterName": "lab", "phase": "Ready"}
        pool |= {"status": {"nodes": list(NODES)}, **who, **label}
        return listed("nodepools", [pool], request.params, fields=("name", "clusterId"))

    @route("GET", "/nodes")
    def list_nodes(self, request: Request) -> Any:
        """The nodes of all clusters."""
        fields = ("name", "status", "nodePool", "clusterUuid")
        return listed("nodes", [self._node_json(name) for name in NODES], request.params, fields=fields, key="name")

    @route("GET", "/asset/datasource/pvc")
    def list_claims(self, request: Request) -> Any:
        """All claims as assets; no paging."""
        entries = [self._claim_json(name) for name in list(self.claims)]
        return {"entries": self._assets(entries, request)}

    @route("GET", "/asset/credentials")
    def list_credentials(self, request: Request) -> Any:
        """Credentials of all kinds; never their values."""
        entries = [{**item, "spec": {"genericSecret": item["spec"]}} for item in self.credentials]
        return {"entries": self._assets(entries, request)}

    @route("GET", "/asset/credentials/generic-secret")
    def list_secrets(self, request: Request) -> Any:
        """Generic secrets; never their values."""
        return {"entries": self._assets(self.credentials, request)}

    @route("POST", "/asset/credentials/generic-secret")
    def create_secret(self, request: Request) -> Any:
        """Makes a generic secret of the lab's project."""
        meta, spec = (_object(_object(request.json()).get(part)) for part in ("meta", "spec"))
        if meta.get("scope") != "project" or meta.get("projectId") != int(self.mine.id):
            raise HttpError(403, "You do not have sufficient permissions.")
        if any(item["meta"]["name"] == meta.get("name") for item in self.credentials):
            raise HttpError(409, "Resource with this name already exists")
        pairs = spec.get("keyValuePairs") or []
        if not meta.get("name") or not pairs:
            raise HttpError(400, "Required parameter is missing")
        self.credential(meta["name"], {pair["key"]: pair["value"] for pair in pairs})
        return Answer(202, self.credentials[-1])

    @route("DELETE", "/asset/credentials/generic-secret/{id}")
    def delete_secret(self, request: Request) -> Any:
        """Deletes a generic secret, and the Kubernetes secret."""
        for item in self.credentials:
            if item["meta"]["id"] == request.names["id"]:
                self.credentials.remove(item)
                self.secrets.pop(item["clusterInfo"]["resources"][0]["name"], None)
                return Answer(204)
        raise HttpError(404, "Resource id not found.")

    def _node_json(self, name: str) -> dict[str, Any]:
        gpus = {"gpuType": "NVIDIA-H100", "gpuCount": GPUS}
        common = {"id": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)), "name": name, "status": "Ready"}
        return {
            **common,
            "nodePool": "default",
            "clusterUuid": self.cluster_id,
            "conditions": [],
            "taints": [],
            "gpuInfo": gpus,
            "createdAt": iso(0.0),
            "updatedAt": iso(0.0),
        }

    def _claim_json(self, name: str) -> dict[str, Any]:
        meta = self.asset(name, "pvc")
        spec = {"claimName": name, "path": f"/{name}", "existingPvc": True, "readOnly": False}
        return {"meta": {**meta, "projectId": int(self.mine.id), "projectName": self.project}, "spec": spec}

    def _assets(self, entries: list[dict[str, Any]], request: Request) -> list[dict[str, Any]]:
        only(request.params, *_ASSET_FILTERS)
        wanted = {key: value for key, value in request.params.items() if key in ("name", "scope", "projectId")}
        return [item for item in entries if all(str(item["meta"].get(key)) == want for key, want in wanted.items())]


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise HttpError(400, "Bad request - an object is expected")
    return value
