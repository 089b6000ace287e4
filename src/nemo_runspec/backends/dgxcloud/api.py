"""run:ai's REST API as far as it is used here: plain answers, every list to its end, one token for this process.

Paths and parameters are those of run:ai's published API, 2.24 (`run-ai-docs.nvidia.com/api`), relative to `base_url`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from nemo_runspec.backends.cloud.connections import Page, every_row, kept_for_thread
from nemo_runspec.backends.cloud.renewal import about_a_job, until_it_makes_sense, with_fresh_credentials
from nemo_runspec.backends.dgxcloud.answers import no_such_list, page_of, rows_of, told, workload_of
from nemo_runspec.backends.dgxcloud.fields import require_encryption
from nemo_runspec.backends.dgxcloud.spec import DISTRIBUTED, TRAININGS
from nemo_runspec.backends.dgxcloud.token import Token, fetch_token
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.reading import table, text, whole
from nemo_runspec.transport.web import NotKnown, Refused, Reply, Web

__all__ = ["DISTRIBUTED", "PAGE", "TRAININGS", "Row", "RunaiApi", "connect", "shared_token"]

Row = dict[str, Any]

PAGE = 500
"""Rows of a list per request: the most that run:ai gives."""

_TOKENS = threading.Lock()
"""Held while an application's token is looked up: several threads that begin at once share one."""

PATIENCE, AT_ONCE = 60.0, 15.0
"""Seconds that a question may take in all; and one that a person waits for who has not submitted anything yet."""

_KUBE_PATIENCE, _KUBE_PAUSE = 20.0, 60.0
"""Seconds that the cluster's API server is waited for, and left alone afterwards: logs can wait, jobs not."""

_FORBIDDEN = "give the application a role with that permission in the project (run:ai: Access, Access rules)"


class RunaiApi:
    """One run:ai control plane, and its cluster's API server where one is named.

    Args:
        base_url: such as `https://example.com/api/v1`. `kube_url`: '' where there is none.
        token: shared by all that are the same application. `patience`: seconds for a question whose trouble may pass.

    Raises of every method: `Refused` (4xx), `Unreachable` (no answer), `NotKnown` (a POST that may have been done),
    `UserError` (the credentials are not accepted).
    """

    def __init__(self, base_url: str, token: Token, kube_url: str = "", *, patience: float = PATIENCE) -> None:
        self.web = Web(base_url, "run:ai", headers=self._headers, timeout=min(30.0, patience), patience=patience)
        self.kube = _kube(kube_url, self._headers, patience) if kube_url else None
        self._kube_trouble: UserError | None = None
        self._kube_pause = 0.0
        self._token = token
        self._used = ""
        self._projects: dict[str, Row] = {}
        self._taken: set[Web] = set()

    def projects(self) -> list[Row]:
        """All projects the application sees."""
        return list(self._pages("/org-unit/projects", "projects"))

    def project(self, name: str) -> Row:
        """The project of exactly this name; asked for once.

        Raises:
            UserError: there is none; the error names those there are.
        """
        if name in self._projects:
            return self._projects[name]
        there = self.projects()
        found = [row for row in there if row.get("name") == name]
        if len(found) == 1:
            self._projects[name] = found[0]
            return found[0]
        if found:
            raise UserError(
                f"run:ai has {len(found)} projects '{name}', on several clusters",
                where=self.web.base,
                key="project_name",
            )
        names = sorted(str(row.get("name")) for row in there)
        raise UserError(
            f"run:ai has no project '{name}'; there are: {', '.join(names) or 'none that this application sees'}",
            where=self.web.base,
            remedy=did_you_mean(name, names) or "set project_name to one of them",
            key="project_name",
        )

    def claims(self, project_id: str = "") -> list[Row]:
        """The data sources that are persistent volume claims: `meta` and `spec` of run:ai's assets."""
        return self._list("/asset/datasource/pvc", "entries", _of_project(project_id))

    def credentials(self, project_id: str = "") -> list[Row]:
        """The credentials run:ai keeps, as `meta` and `spec`; it gives no values away."""
        reply = self._ask("GET", "/asset/credentials", params=_of_project(project_id), secret=True)
        return rows_of(told(reply), "entries")

    def create(self, kind: str, payload: Mapping[str, Any]) -> Row:
        """Submits a workload; the answer has `workloadId`. `NotKnown` too where the answer makes no sense."""
        reply = self._ask("POST", f"/workloads/{kind}", body=payload)
        try:
            return table(told(reply))
        except Unreachable as error:
            raise NotKnown(error.what, where=error.where) from None

    def detail(self, id: str) -> Row:
        """One workload of any kind: `phase`, `conditions`, `pendingSchedulingMessages`.

        Raises:
            Malformed: what run:ai answers is not that workload.
        """
        try:
            return workload_of(self._ask("GET", f"/workloads/{id}"), id)
        except Refused as error:
            raise about_a_job(error) from None

    def workload(self, kind: str, id: str) -> Row:
        """One workload with its spec; its phase is `actualPhase` here."""
        return table(told(self._ask("GET", f"/workloads/{kind}/{id}")))

    def workloads(self, filters: Sequence[str] = (), *, deleted: bool = False) -> Iterator[Row]:
        """Workloads of all kinds, the newest first; further pages are asked for as they are needed.

        Args:
            filters: such as `projectName==team`, all of which must hold.
            deleted: those that were deleted, instead of those that are there.

        Raises:
            Malformed: an answer is no page of workloads.
        """
        params: dict[str, Any] = {"sortBy": "createdAt", "sortOrder": "desc"}
        if filters:
            params["filterBy"] = ",".join(filters)
        if deleted:
            params["deleted"] = "true"
        try:
            yield from self._pages("/workloads", "workloads", params)
        except Refused as error:
            raise (no_such_list(error) if error.status == 404 else about_a_job(error)) from None

    def suspend(self, kind: str, id: str) -> None:
        """Stops a workload; run:ai keeps its record. Twice is as once."""
        self._change("POST", f"/workloads/{kind}/{id}/suspend")

    def delete(self, kind: str, id: str) -> None:
        """Deletes a workload and its record."""
        self._change("DELETE", f"/workloads/{kind}/{id}")

    def events(self, id: str) -> list[Row]:
        """What the cluster has written down about a workload, the newest first."""
        return list(self._pages(f"/workloads/{id}/events", "events"))

    def history(self, id: str) -> list[Row]:
        """The phases a workload went through."""
        return list(self._pages(f"/workloads/{id}/history", "records"))

    def pods(self, id: str) -> list[Row]:
        """The pods of a workload."""
        return self._list(f"/workloads/{id}/pods", "pods")

    def kube_pods(self, namespace: str, selector: str = "") -> list[Row]:
        """The pods of a namespace, as Kubernetes describes them. Only with a `kube_url`."""
        params = {"labelSelector": selector} if selector else None
        return rows_of(told(self._ask_kube(f"/api/v1/namespaces/{namespace}/pods", params)), "items")

    def kube_log(self, namespace: str, pod: str, params: Mapping[str, Any]) -> bytes:
        """The log of a pod's container. Only with a `kube_url`.

        Args:
            params: of `GET …/pods/NAME/log` of the Kubernetes API: `container`, `timestamps`, `sinceTime`, …
        """
        return self._ask_kube(f"/api/v1/namespaces/{namespace}/pods/{pod}/log", params).body

    @property
    def kube_refuses(self) -> bool:
        """Whether the cluster has refused this application, as far as it was asked: asking now would not help."""
        return isinstance(self._kube_trouble, Refused)

    @property
    def kube_closed(self) -> bool:
        """Whether it has never let this application in: what it alone knows will not be known later either."""
        return self.kube_refuses and self.kube not in self._taken

    def ask_kube_now(self) -> None:
        """Lets the next question to the cluster be asked, though it was out of reach a moment ago."""
        if isinstance(self._kube_trouble, Unreachable):
            self._kube_trouble = None

    def _change(self, method: str, path: str) -> None:
        """A change that may be made twice. Only nothing at all, or JSON, says that it was made."""

        def act() -> None:
            try:
                told(self._ask(method, path, repeatable=True))
            except Unreachable as error:
                raise NotKnown(error.what, where=error.where, remedy=error.remedy) from None

        until_it_makes_sense(act)

    def _list(self, path: str, key: str, params: Mapping[str, Any] | None = None) -> list[Row]:
        """A list that comes whole."""
        return rows_of(told(self._ask("GET", path, params=params)), key)

    def _pages(self, path: str, key: str, params: Mapping[str, Any] | None = None) -> Iterator[Row]:
        """Every row once. A page says where the `next` one begins; the last says nothing, or brings nothing new."""

        def page(offset: int) -> Page:
            answer = page_of(self._ask("GET", path, params={**(params or {}), "limit": PAGE, "offset": offset}), key)
            return Page(rows_of(answer, key), whole(table(answer).get("next")))

        return every_row(page, 0, _identity)

    def _ask_kube(self, path: str, params: Mapping[str, Any] | None = None) -> Reply:
        """Where it has refused a token and never took one it is asked no more; while it does not answer, rarely."""
        if self.kube is None:
            raise UserError("the profile names no kube_apiserver_url")
        if self._kube_trouble is not None and time.monotonic() < self._kube_pause:
            raise self._kube_trouble
        try:
            return self._checked(self.kube, "GET", path, params=params, repeatable=True)
        except (Refused, Unreachable) as error:
            if not isinstance(error, Refused) or error.status in (401, 403):
                for_good = isinstance(error, Refused) and self.kube not in self._taken
                pause = float("inf") if for_good else _KUBE_PAUSE
                self._kube_trouble, self._kube_pause = error, time.monotonic() + pause
            raise

    def _ask(self, method: str, path: str, **more: Any) -> Reply:
        return self._checked(self.web, method, path, **{"repeatable": method == "GET", **more})

    def _checked(self, web: Web, method: str, path: str, **more: Any) -> Reply:
        """One request; again with a new token where the old one is not taken, or one that was taken is refused."""
        again = (web in self._taken and more.get("repeatable")) or web is self.kube

        def ask() -> Reply:
            reply = web.reply(method, path, **more) if again else self._once(web, method, path, **more)
            self._taken.add(web)
            return reply

        try:
            return with_fresh_credentials(ask, self._renew) if again else ask()
        except Refused as error:
            raise _in_words(error, web, method, path) from None
        except Unreachable as error:
            if web is self.web:
                error.remedy = f"see that base_url in the profile, {web.base}, is right; else try again later"
            raise

    def _once(self, web: Web, method: str, path: str, **more: Any) -> Reply:
        try:
            return web.reply(method, path, **more)
        except Refused as error:
            if error.status != 401:
                raise
        self._renew()
        return web.reply(method, path, **more)

    def _renew(self) -> None:
        self._token.refused(self._used)

    def _headers(self) -> Mapping[str, str]:
        self._used = self._token.value()
        return {"Authorization": f"Bearer {self._used}"}


def connect(
    handle: Mapping[str, Any], secrets: Mapping[str, str] | None = None, *, patience: float = PATIENCE
) -> RunaiApi:
    """The API a handle's job is on. Connections are shared by a thread, the token by the process.

    Args:
        handle: with `base_url`, `client_id`, `kube`, and where the secret is: `profile`, `env_file`.
        secrets: of a submission, which may hold `client_secret`. `patience`: seconds for a question.

    Raises:
        UserError: there is no client secret to be found, or it would be sent so that others can read it.
    """
    from nemo_runspec.backends.dgxcloud.credentials import client_secret

    require_encryption("base_url", str(handle["base_url"]))
    if handle.get("kube"):
        require_encryption("kube_apiserver_url", str(handle["kube"]))
    secret = client_secret(handle, secrets)
    address = (str(handle["base_url"]), str(handle["client_id"]), secret, str(handle.get("kube") or ""))

    def made() -> RunaiApi:
        return RunaiApi(address[0], shared_token(address[0], address[1], secret), address[3], patience=patience)

    return kept_for_thread((*address, patience), made)


def shared_token(base_url: str, client_id: str, secret: str) -> Token:
    """The token of an application in this process."""
    with _TOKENS:
        return _token(base_url, client_id, secret)


@lru_cache(maxsize=32)
def _token(base_url: str, client_id: str, secret: str) -> Token:
    web = Web(base_url, "run:ai", headers=_nothing, timeout=AT_ONCE, patience=AT_ONCE)
    return Token(partial(fetch_token, web, client_id, secret))


def _kube(url: str, headers: Callable[[], Mapping[str, str]], patience: float) -> Web:
    return Web(url, "the cluster's API server", headers=headers, timeout=20.0, patience=min(patience, _KUBE_PATIENCE))


def _nothing() -> Mapping[str, str]:
    return {}


def _in_words(error: Refused, web: Web, method: str, path: str) -> Refused:
    if error.status == 401:
        error.remedy = f"see whether {web.name} takes tokens of this application"
    if error.status == 403:
        error.what = f"{web.name} does not let this application do {method} {path}: {error.what}"
        error.remedy = _FORBIDDEN
    return error


def _of_project(id: str) -> dict[str, str] | None:
    return {"projectId": id} if id else None


def _identity(row: Row) -> str:
    meta = table(row.get("meta")) or table(row.get("metadata"))
    named = (row.get("id"), row.get("workloadId"), meta.get("id"), meta.get("uid"))
    return next(filter(None, map(text, named)), "") or repr(row)
