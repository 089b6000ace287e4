"""run:ai's REST API as far as it is used here: plain answers, every list to its end, one token for this process.

Paths and parameters are those of run:ai's published API, 2.24 (`run-ai-docs.nvidia.com/api`), relative to `base_url`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from nemo_runspec.backends.cloud.api import AT_ONCE, PATIENCE, CloudApi, JsonTable, rows_of
from nemo_runspec.backends.cloud.connections import Page, every_row, kept_for_thread
from nemo_runspec.backends.dgxcloud.fields import require_encryption
from nemo_runspec.backends.dgxcloud.token import Token, fetch_token
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.reading import table, text, whole
from nemo_runspec.transport.web import Refused, Reply, Web

PAGE = 500
"""Rows of a list per request: the most that run:ai gives."""

_KUBE_PATIENCE, _KUBE_PAUSE = 20.0, 60.0
"""Seconds that the cluster's API server is waited for, and left alone afterwards: logs can wait, jobs not."""

_TOKENS: dict[tuple[str, str, str], Token] = {}
"""Tokens of this process, by control plane, application and secret: threads share them."""

_FORBIDDEN = "give the application a role with that permission in the project (run:ai: Access, Access rules)"


class RunaiApi(CloudApi):
    """One run:ai control plane, and its cluster's API server where one is named.

    Args:
        base_url: such as `https://example.com/api/v1`.
        kube_url: '' where there is none.
        token: shared by all that are the same application.
    """

    def __init__(self, base_url: str, token: Token, kube_url: str = "", *, patience: float = PATIENCE) -> None:
        super().__init__(
            base_url, "run:ai", identity=_identity, is_job=_is_table, timeout=min(30.0, patience), patience=patience
        )
        self.kube = self._cluster(kube_url, min(patience, _KUBE_PATIENCE)) if kube_url else None
        self._kube_trouble: UserError | None = None
        self._kube_pause = 0.0
        self._token = token
        self._used = ""
        self._projects: list[JsonTable] = []

    @property
    def webs(self) -> Sequence[Web | None]:
        return (self.web, self.kube)

    def projects(self) -> list[JsonTable]:
        self._projects = list(self._pages("/org-unit/projects", "projects"))
        return self._projects

    def project(self, name: str) -> JsonTable:
        """The project of exactly this name. Raises `UserError` where there is none."""
        found = _named(name, self._projects) or _named(name, self.projects())
        if len(found) == 1:
            return found[0]
        names = sorted(str(row.get("name")) for row in self._projects)
        have = ", ".join(names) or "none that this application sees"
        raise UserError(
            f"run:ai has {len(found)} projects '{name}', on several clusters"
            if found
            else f"run:ai has no project '{name}'; there are: {have}",
            where=self.web.base,
            remedy=None if found else did_you_mean(name, names) or "set project_name to one of them",
            key="project_name",
        )

    def claims(self, project_id: str = "") -> list[JsonTable]:
        """The data sources that are persistent volume claims: `meta` and `spec` of run:ai's assets."""
        return rows_of(self.get("/asset/datasource/pvc", {"projectId": project_id or None}), "entries")

    def credentials(self, project_id: str = "") -> list[JsonTable]:
        """The credentials run:ai keeps, as `meta` and `spec`; it gives no values away."""
        return rows_of(self.get("/asset/credentials", {"projectId": project_id or None}, secret=True), "entries")

    def create(self, kind: str, payload: Mapping[str, Any]) -> JsonTable:
        """Submits a workload; the answer has `workloadId`."""
        return table(self.send("POST", f"/workloads/{kind}", body=payload))

    def detail(self, id: str) -> JsonTable | None:
        """A workload of any kind: `phase`, `conditions`, `pendingSchedulingMessages`; None where there is none."""
        return self.job_at(f"/workloads/{id}", id)

    def workload(self, kind: str, id: str) -> JsonTable:
        """One workload with its spec; its phase is `actualPhase` here."""
        return table(self.get(f"/workloads/{kind}/{id}"))

    def workloads(self, filters: Sequence[str] = (), *, deleted: bool = False) -> Iterator[JsonTable]:
        """Workloads of all kinds, the newest first; further pages are asked for as they are needed.

        Args:
            filters: such as `projectName==team`, all of which must hold.
            deleted: those that were deleted, instead of those that are there.
        """
        params = {"sortBy": "createdAt", "sortOrder": "desc", "deleted": "true" if deleted else None}
        params |= {"filterBy": ",".join(filters) or None}
        return self._pages("/workloads", "workloads", params, jobs=True)

    def suspend(self, kind: str, id: str) -> bool:
        """Stops a workload; run:ai keeps its record. Twice is as once. False where there is none."""
        return self.change("POST", f"/workloads/{kind}/{id}/suspend")

    def delete(self, kind: str, id: str) -> bool:
        return self.change("DELETE", f"/workloads/{kind}/{id}")

    def events(self, id: str) -> list[JsonTable]:
        """What the cluster has written down about a workload, the newest first."""
        return list(self._pages(f"/workloads/{id}/events", "events"))

    def history(self, id: str) -> list[JsonTable]:
        return list(self._pages(f"/workloads/{id}/history", "records"))

    def pods(self, id: str) -> list[JsonTable]:
        return rows_of(self.get(f"/workloads/{id}/pods"), "pods")

    def kube_pods(self, namespace: str) -> list[JsonTable]:
        """The pods of a namespace, as Kubernetes describes them. Only with a `kube_url`."""
        return rows_of(self._ask_kube(f"/api/v1/namespaces/{namespace}/pods").json(), "items")

    def kube_log(self, namespace: str, pod: str, params: Mapping[str, Any]) -> bytes:
        """The log of a pod's container. Only with a `kube_url`.

        Args:
            params: of `GET …/pods/NAME/log` of the Kubernetes API: `container`, `timestamps`, `sinceTime`, …
        """
        return self._ask_kube(f"/api/v1/namespaces/{namespace}/pods/{pod}/log", params).body

    @property
    def kube_refuses(self) -> bool:
        """True if the cluster has refused this application, as far as it was asked: asking now would not help."""
        return isinstance(self._kube_trouble, Refused)

    @property
    def kube_closed(self) -> bool:
        """True if it has never let this application in: what it alone knows will not be known later either."""
        return self.kube_refuses and self.kube not in self._accepted

    def ask_kube_now(self) -> None:
        """Lets the next question to the cluster be asked, though it was out of reach a moment ago."""
        if isinstance(self._kube_trouble, Unreachable):
            self._kube_trouble = None

    def headers(self) -> Mapping[str, str]:
        """The token, fetched where there is none that holds."""
        self._used = self._token.value()
        return {"Authorization": f"Bearer {self._used}"}

    def may_be_stray(self, web: Web) -> bool:
        """The cluster is asked no more once it has refused, so that it is asked twice before."""
        return web is self.kube or super().may_be_stray(web)

    def renew(self) -> bool:
        """Gives the last token up."""
        self._token.refused(self._used)
        return True

    def explain(self, error: UserError, web: Web, request: str) -> None:
        """What to do about a token or a permission that is not accepted, or an address that does not answer."""
        if isinstance(error, Unreachable) and web is self.web:
            error.remedy = f"see that base_url in the profile, {web.base}, is right; else try again later"
        if isinstance(error, Refused) and error.status == 401:
            error.remedy = f"see whether {web.name} takes tokens of this application"
        if isinstance(error, Refused) and error.status == 403:
            error.what = f"{web.name} does not let this application do {request}: {error.what}"
            error.remedy = _FORBIDDEN

    def _pages(
        self, path: str, key: str, params: Mapping[str, Any] | None = None, *, jobs: bool = False
    ) -> Iterator[JsonTable]:
        """Every row once. A page says where the `next` one begins; the last says nothing, or brings nothing new."""

        def page(offset: int) -> Page:
            asked = {**(params or {}), "limit": PAGE, "offset": offset}
            answer, rows = self.page(path, key, asked, jobs=jobs)
            return Page(rows, whole(table(answer).get("next")))

        return every_row(page, 0, _identity)

    def _cluster(self, url: str, patience: float) -> Web:
        return Web(url, "the cluster's API server", headers=self.headers, timeout=20.0, patience=patience)

    def _ask_kube(self, path: str, params: Mapping[str, Any] | None = None) -> Reply:
        """Where it has refused a token and never took one it is asked no more; while it does not answer, rarely."""
        if self.kube is None:
            raise UserError("the profile names no kube_apiserver_url")
        if self._kube_trouble is not None and time.monotonic() < self._kube_pause:
            raise self._kube_trouble
        try:
            return self.reply("GET", path, web=self.kube, params=params, repeatable=True)
        except (Refused, Unreachable) as error:
            if not isinstance(error, Refused) or error.status in (401, 403):
                self._kube_trouble = error
                self._kube_pause = float("inf") if self.kube_closed else time.monotonic() + _KUBE_PAUSE
            raise


def connect(
    handle: Mapping[str, Any], secrets: Mapping[str, str] | None = None, *, patience: float = PATIENCE
) -> RunaiApi:
    """The API a handle's job is on. Connections are shared by a thread, the token by the process.

    Args:
        handle: with `base_url`, `client_id`, `kube`, and where the secret is: `profile`, `env_file`.
        secrets: of a submission, which may hold `client_secret`.
        patience: seconds for a question.

    Raises:
        UserError: there is no client secret to be found, or it would be sent so that others can read it.
    """
    from nemo_runspec.backends.dgxcloud.credentials import client_secret

    url, application, kube = (str(handle.get(key) or "") for key in ("base_url", "client_id", "kube"))
    require_encryption("base_url", url)
    if kube:
        require_encryption("kube_apiserver_url", kube)
    secret = client_secret(handle, secrets)
    return kept_for_thread(
        (url, application, secret, kube, patience),
        lambda: RunaiApi(url, _token(url, application, secret), kube, patience=patience),
    )


def _token(url: str, application: str, secret: str) -> Token:
    web = Web(url, "run:ai", headers=dict, timeout=AT_ONCE, patience=AT_ONCE)
    return _TOKENS.setdefault((url, application, secret), Token(partial(fetch_token, web, application, secret)))


def _named(name: str, there: Sequence[JsonTable]) -> list[JsonTable]:
    return [row for row in there if row.get("name") == name]


def _identity(row: JsonTable) -> str:
    """The id of a workload, or of anything else that is listed; the whole row where it has none."""
    meta = table(row.get("meta")) or table(row.get("metadata"))
    named = (row.get("id"), row.get("workloadId"), meta.get("id"), meta.get("uid"))
    return next(filter(None, map(text, named)), "") or repr(row)


def _is_table(row: Any) -> bool:
    return isinstance(row, dict)
