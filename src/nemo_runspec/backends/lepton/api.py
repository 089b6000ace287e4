"""Lepton's HTTP API, as far as jobs need it: one method per endpoint, plain dictionaries, nothing taken for granted.

A client of ours instead of the `leptonai` package, for these reasons. NeMo-Run 0.11.1 needs `leptonai.api.v1`, which
ends with leptonai 0.27.3, so that is the newest that can be installed beside it; importing any part of it takes a
second; it drops `readiness_issue`, the one field that says why a job waits; it has neither failure-analysis nor
imagepullsecrets; its log stream fails on a character that is split between two chunks; and it never tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote

from nemo_runspec.backends.cloud.connections import Page, every_row
from nemo_runspec.backends.cloud.renewal import (
    about_a_job,
    unless_missing,
    until_it_makes_sense,
    with_fresh_credentials,
)
from nemo_runspec.backends.lepton.credentials import LeptonLogin, find_login
from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.reading import table, tables, text
from nemo_runspec.transport.web import Malformed, NotKnown, Refused, Reply, Web

PAGE = 500
"""Jobs per page, as Lepton's own client asks for them."""

LOG_LINES = 5000
"""Lines that one answer of `/logs` holds at most."""

ALL = "alive_and_archive"

_SILENT = "try again later; see that this machine reaches it, and that LEPTON_WORKSPACE_URL, where it is set, is right"

Json = dict[str, Any]


class LeptonApi:
    """One workspace. Lists that are not there are empty, an object that is not there is None.

    Every method raises `transport.web.Refused` for what Lepton refuses, `transport.base.Unreachable` where it does not
    answer; those that change something raise `transport.web.NotKnown` where it is not known whether they did.

    Args:
        patience: seconds in all for a question whose trouble may pass.
        again: finds the login anew, where one that was taken is refused.

    Attributes:
        web: counts the requests as `web.calls`.
    """

    def __init__(
        self,
        login: LeptonLogin,
        *,
        timeout: float = 30.0,
        patience: float = 60.0,
        again: Callable[[], LeptonLogin] | None = None,
    ) -> None:
        self.login = login
        self.web = Web(login.url, "Lepton", headers=self._headers, timeout=timeout, patience=patience)
        self._again = again
        self._taken = False

    def workspace(self) -> Json:
        """The workspace: the cheapest proof that the token is accepted."""
        return table(self._get("/workspace"))

    def job(self, id: str) -> Json | None:
        """A job, alive or archived; None where Lepton answers that it has none of that id (404).

        Raises:
            Malformed: what it answers is not that job.
        """
        try:
            answer = self._get(f"/jobs/{_word(id)}", {"job_query_mode": ALL})
        except Refused as error:
            if error.status != 404:
                raise about_a_job(error) from None
            return None
        if not isinstance(answer, dict) or id_of(answer) != id or not _is_table(answer.get("status")):
            raise _malformed(self, f"/jobs/{id}", "is not that job")
        return answer

    def jobs(self, *, name: str = "", mode: str = ALL) -> Iterator[Json]:
        """The workspace's jobs, page by page as they are taken; `name`: only those whose name holds that text.

        Raises:
            Malformed: an answer is no page of jobs.
        """
        params = {"job_query_mode": mode, "page_size": PAGE, **({"q": name} if name else {})}
        return every_row(lambda page: self._page_of_jobs({**params, "page": page}), 1, id_of)

    def _page_of_jobs(self, params: Mapping[str, Any]) -> Page:
        """A page, with as many rows as it says there are: one that says less of itself was cut on its way."""
        try:
            answer = self._get("/jobs", params)
        except Refused as error:
            if error.status != 404:
                raise about_a_job(error) from None
            raise _malformed(self, "/jobs", "is that there is no such list (HTTP 404)") from None
        rows = _rows_of_page(answer)
        if rows is None:
            raise _malformed(self, "/jobs", "is no list of jobs")
        total = table(answer).get("total")
        if not rows and isinstance(total, int) and total > (params["page"] - 1) * PAGE:
            raise _malformed(self, "/jobs", f"says that there are {total} jobs, and has none")
        return Page(_listed(answer, "jobs"), params["page"] + 1, total if isinstance(total, int) else None)

    def create(self, payload: Mapping[str, Any]) -> Json:
        """Makes a job; what Lepton answers, its id in it: without one it is not known. Never repeated by itself.

        Its name is no id: nobody would find the job by it.
        """
        job = table(self._post("/jobs", payload))
        if not job_id(job):
            raise NotKnown("Lepton's answer has no job's id", where=f"{self.login.url}/jobs", remedy="try again later")
        return job

    def stop(self, id: str) -> None:
        """Asks a job to stop; its record stays. One that is over, or gone, is left as it is."""
        self._quietly("PATCH", f"/jobs/{_word(id)}", body={"spec": {"stopped": True}})

    def delete(self, id: str) -> bool:
        """Deletes a job and its record; False where there was none."""
        return self._quietly("DELETE", f"/jobs/{_word(id)}", params={"job_query_mode": ALL})

    def replicas(self, id: str) -> list[Json]:
        """The pods of a job, those of earlier starts too; empty where the job is not there."""
        return _listed(self._found(f"/jobs/{_word(id)}/replicas", {"job_query_mode": ALL}), "replicas")

    def events(self, id: str) -> list[Json]:
        """What the platform has written down about a job."""
        return _listed(self._found(f"/jobs/{_word(id)}/events"), "events")

    def failure_analysis(self, id: str) -> Json | None:
        """Lepton's own analysis of a failed job, None where it has none."""
        return table(self._found(f"/jobs/{_word(id)}/failure-analysis")) or None

    def logs(self, id: str, start: int, end: int, *, replica: str = "", limit: int = LOG_LINES) -> list[Json]:
        """The newest lines of a time, at most `limit`: `streams` of `{"stream": labels, "values": [[ns, line], …]}`.

        Args:
            start, end: nanoseconds since 1970; the end is not included.
        """
        params = {
            "job": id, "start": start, "end": end, "timestamps": "true", "direction": "backward", "limit": limit,
            "q": "", "job_query_mode": ALL, **({"replica": replica} if replica else {}),
        }  # fmt: skip
        answer = self._found("/logs", params)
        return _listed((table(answer).get("data") or {}) if isinstance(answer, Mapping) else {}, "result")

    def node_groups(self) -> list[Json]:
        """The dedicated node groups: `metadata.{id,name}`, `spec.volumes`, `status.{ready_nodes,quota_enabled}`."""
        return _listed(self._get("/dedicated-node-groups"), "dedicated_node_groups")

    def node_group(self, named: str) -> Json:
        """The node group with that id, else that name.

        Raises:
            UserError: there is none; the remedy names those there are.
        """
        groups = self.node_groups()
        for matches in (id_of, name_of):
            found = [group for group in groups if matches(group) == named]
            if found:
                return found[0]
        have = ", ".join(sorted(f"{name_of(group)} ({id_of(group)})" for group in groups)) or "none"
        raise UserError(f"node_group: there is no node group '{named}'", remedy=f"node groups there are: {have}")

    def nodes(self, group: str, *, idle: bool = False) -> list[Json]:
        """The nodes of a group, by its id: `spec.unschedulable`, `spec.resource.gpu.{allocated,total}`."""
        params = {"idle": "true"} if idle else None
        return _listed(self._found(f"/dedicated-node-groups/{_word(group)}/nodes", params), "nodes")

    def reservations(self, group: str) -> list[Json]:
        """The reservations of a group, by its id."""
        return _listed(self._found(f"/dedicated-node-groups/{_word(group)}/reservations"), "reservations")

    def storage_permissions(self, volume: str, group: str) -> list[Json]:
        """What may be mounted of a volume: `path_prefix`, `allowed_users`, `subfolder_policy`."""
        path = f"/storage-permission/{_word(volume)}"
        return _listed(self._found(path, {"nodegroup_id": group}), "permissions")

    def shapes(self, group: str = "", *, purpose: str = "job") -> list[Json]:
        """Resource shapes, of a node group by its id: `metadata.id`, `spec.{accelerator_num,listable_in,…}`."""
        params = {"purpose": purpose, **({"node_groups": group} if group else {})}
        return _listed(self._get("/shapes", params), "shapes")

    def secrets(self) -> list[str]:
        """Names of the workspace's secrets."""
        found = _listed(self._get("/usersecrets", secret=True), "secrets", words=True)
        return [str(each.get("name") or name_of(each) or id_of(each)) for each in found]

    def create_secret(self, name: str, value: str) -> None:
        """Makes a secret; one that is there already is an error of Lepton's (409). Doing it twice does no harm."""
        self._post("/usersecrets", [{"name": name, "value": value}], repeatable=True, secret=True)

    def image_pull_secrets(self) -> list[str]:
        """Names of the workspace's secrets for registries."""
        found = _listed(self._get("/imagepullsecrets", secret=True), "imagepullsecrets")
        return [name_of(each) or id_of(each) for each in found]

    def create_image_pull_secret(self, name: str, server: str, user: str, password: str) -> None:
        """Makes a secret for a registry."""
        spec = {"registry_server": server, "username": user, "password": password}
        body = {"metadata": {"id": name, "name": name}, "spec": spec}
        self._post("/imagepullsecrets", body, repeatable=True, secret=True)

    def _get(self, path: str, params: Mapping[str, Any] | None = None, *, secret: bool = False) -> Any:
        try:
            return _read(self._reply("GET", path, params=params, secret=secret), Malformed)
        except UserError as error:
            raise self._explained(error) from None

    def _found(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """What is there, None where there is no such thing."""
        return unless_missing(self._get, path, params)

    def _post(self, path: str, body: Any, *, repeatable: bool = False, secret: bool = False) -> Any:
        try:
            return _read(self.web.reply("POST", path, body=body, repeatable=repeatable, secret=secret), NotKnown)
        except UserError as error:
            raise self._explained(error) from None

    def _quietly(self, method: str, path: str, *, params: Any = None, body: Any = None) -> bool:
        """A change of something that may be gone meanwhile: False where it is."""
        try:
            until_it_makes_sense(lambda: _read(self._reply(method, path, params=params, body=body), NotKnown))
        except UserError as error:
            if not isinstance(error, Refused) or error.status != 404:
                raise self._explained(error) from None
            return False
        return True

    def _reply(self, method: str, path: str, **more: Any) -> Reply:
        """An answer to what may be asked twice; with a fresh login where the one that was taken is refused."""

        def ask() -> Reply:
            reply = self.web.reply(method, path, repeatable=True, **more)
            self._taken = True
            return reply

        return with_fresh_credentials(ask, self._renew) if self._taken and self._again else ask()

    def _renew(self) -> None:
        with suppress(UserError):  # somebody may be writing the login file just now
            self.login = self._again() if self._again is not None else self.login

    def _headers(self) -> Mapping[str, str]:
        origin = {"Origin": self.login.origin} if self.login.origin else {}
        return {"Authorization": f"Bearer {self.login.token}", **origin}

    def _explained(self, error: UserError) -> UserError:
        """With what to do about a token that is not accepted, or a workspace that does not answer."""
        if isinstance(error, Unreachable):
            error.remedy = _SILENT
        if isinstance(error, Refused) and error.status in (401, 403):
            error.what = f"{error.what}; the token is from {self.login.source}, the workspace is {self.login.workspace}"
            error.args = (error.what,)
            error.remedy = "renew it (lep workspace login, or export LEPTON_WORKSPACE_TOKEN=…); jobs go on meanwhile"
        return error


def connect(handle: Mapping[str, Any] | None = None, *, patience: float = 15.0) -> LeptonApi:
    """The workspace that a job is in, or the current one. Nothing is asked yet. Raises `UserError` without a login.

    Args:
        patience: as for `LeptonApi`; somebody waits for the answer.
    """
    return LeptonApi(find_login(handle), patience=patience, again=partial(find_login, handle))


def id_of(thing: Mapping[str, Any]) -> str:
    """The platform's own id of something it listed, '' where it has none."""
    metadata = table(thing.get("metadata"))
    return text(metadata.get("id")) or text(thing.get("id")) or text(metadata.get("name"))


def job_id(job: Mapping[str, Any]) -> str:
    """The id by which a job is asked about, '' where it is not said: a name leads to no job."""
    return text(section(job, "metadata").get("id"))


def name_of(thing: Mapping[str, Any]) -> str:
    """The name somebody gave it, '' where it has none."""
    return text(table(thing.get("metadata")).get("name")) or text(thing.get("name"))


def section(thing: Mapping[str, Any] | None, *path: str) -> Json:
    """A table within tables, empty where any of them is missing: `section(job, "status")`."""
    found: Any = thing
    for key in path:
        found = table(found).get(key)
    return table(found)


def rows(thing: Mapping[str, Any] | None, *path: str) -> list[Json]:
    """A list of tables within tables, empty where it is missing: `rows(group, "spec", "volumes")`."""
    return tables(section(thing, *path[:-1]).get(path[-1]))


def _read(reply: Reply, otherwise: type[Unreachable]) -> Any:
    """The JSON of an answer. What is none was said by something before Lepton, a gateway or a proxy.

    So was a page in HTML that is answered to a change: only nothing at all, or JSON, says that it was made.
    """
    try:
        return reply.json()
    except UserError as error:
        raise otherwise(error.what, where=error.where, remedy="see LEPTON_WORKSPACE_URL, or try again later") from None


def _malformed(api: LeptonApi, path: str, what: str) -> Malformed:
    return Malformed(f"Lepton's answer {what}", where=f"{api.login.url}{path}", remedy=_SILENT)


def _rows_of_page(answer: Any) -> list[Any] | None:
    """The jobs of a page: below `jobs` (null where there are none), in its only list, or bare; None: it is none."""
    found = answer
    if isinstance(answer, dict):
        lists = [item for item in answer.values() if isinstance(item, list)]
        found = answer["jobs"] or [] if "jobs" in answer else lists[0] if len(lists) == 1 else None
    good = isinstance(found, list) and all(isinstance(row, dict) and _is_table(row.get("status")) for row in found)
    return found if good else None


def _is_table(value: Any) -> bool:
    return value is None or isinstance(value, dict)


def _listed(value: Any, key: str, *, words: bool = False) -> list[Json]:
    """A list of tables, bare or below a key; the only list there is where that key is missing."""
    found: Any = value
    if isinstance(value, Mapping):
        lists: Sequence[Any] = [item for item in value.values() if isinstance(item, list)]
        found = value.get(key) if isinstance(value.get(key), list) else (lists[0] if len(lists) == 1 else [])
    items = found if isinstance(found, list) else []
    if words:
        items = [{"name": item} if isinstance(item, str) else item for item in items]
    return tables(items)


def _word(text: str) -> str:
    """One part of a path."""
    return quote(str(text), safe="")
