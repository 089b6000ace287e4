"""Lepton's HTTP API, as far as jobs need it: one method per endpoint, plain dictionaries, nothing taken for granted.

A client of ours instead of the `leptonai` package, for these reasons. NeMo-Run 0.11.1 needs `leptonai.api.v1`, which
ends with leptonai 0.27.3, so that is the newest that can be installed beside it; importing any part of it takes a
second; it drops `readiness_issue`, the one field that says why a job waits; it has neither failure-analysis nor
imagepullsecrets; its log stream fails on a character that is split between two chunks; and it never tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote

from nemo_runspec.backends.cloud.api import PATIENCE, CloudApi, JsonTable, list_of, rows_of
from nemo_runspec.backends.cloud.connections import Page, every_row, kept_for_thread
from nemo_runspec.backends.cloud.renewal import unless_missing
from nemo_runspec.backends.lepton.credentials import LeptonLogin, find_login
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.reading import table, tables, text
from nemo_runspec.transport.web import NotKnown, Refused, Web

PAGE = 500
"""Jobs per page, as Lepton's own client asks for them."""

LOG_LINES = 5000
"""Lines that one answer of `/logs` holds at most."""

ALL = "alive_and_archive"

_EVERY = {"job_query_mode": ALL}

_SILENT = "try again later; see that this machine reaches it, and that LEPTON_WORKSPACE_URL, where it is set, is right"


class LeptonApi(CloudApi):
    """One workspace. Lists that are not there are empty, an object that is not there is None.

    Args:
        again: finds the login anew, where one that was taken is refused.
    """

    def __init__(
        self,
        login: LeptonLogin,
        *,
        patience: float = PATIENCE,
        again: Callable[[], LeptonLogin] | None = None,
    ) -> None:
        super().__init__(login.url, "Lepton", identity=id_of, is_job=is_job, timeout=30.0, patience=patience)
        self.login = login
        self._again = again

    def workspace(self) -> JsonTable:
        """The workspace: the cheapest proof that the token is accepted."""
        return table(self.get("/workspace"))

    def job(self, id: str) -> JsonTable | None:
        """A job, alive or archived; None where there is none of that id."""
        return self.job_at(_path("jobs", id), id, _EVERY)

    def jobs(self, *, name: str = "", mode: str = ALL) -> Iterator[JsonTable]:
        """The workspace's jobs, page by page as they are taken; `name`: only those whose name holds that text."""
        params = {"job_query_mode": mode, "page_size": PAGE, "q": name or None}
        return every_row(lambda number: self._page_of_jobs(number, params), 1, id_of)

    def create(self, payload: Mapping[str, Any]) -> JsonTable:
        """Makes a job; what Lepton answers, its id in it: without one it is not known, as its name leads to no job."""
        job = table(self.send("POST", "/jobs", body=payload))
        if not job_id(job):
            raise NotKnown("Lepton's answer has no job's id", where=f"{self.login.url}/jobs", remedy="try again later")
        return job

    def stop(self, id: str) -> None:
        """Asks a job to stop; its record stays. One that is over, or gone, is left as it is."""
        self.change("PATCH", _path("jobs", id), body={"spec": {"stopped": True}})

    def delete(self, id: str) -> bool:
        """Deletes a job and its record; False where there was none."""
        return self.change("DELETE", _path("jobs", id), params=_EVERY)

    def replicas(self, id: str) -> list[JsonTable]:
        """The pods of a job, those of earlier starts too."""
        return self._found(_path("jobs", id, "replicas"), "replicas", _EVERY)

    def events(self, id: str) -> list[JsonTable]:
        return self._found(_path("jobs", id, "events"), "events")

    def failure_analysis(self, id: str) -> JsonTable | None:
        return table(unless_missing(self.get, _path("jobs", id, "failure-analysis"))) or None

    def logs(self, id: str, start: int, end: int, *, replica: str = "", limit: int = LOG_LINES) -> list[JsonTable]:
        """The newest lines of a time, at most `limit`: `streams` of `{"stream": labels, "values": [[ns, line], …]}`.

        Args:
            start, end: nanoseconds since 1970; the end is not included.
        """
        params = {
            "job": id, "start": start, "end": end, "timestamps": "true", "direction": "backward", "limit": limit,
            "q": "", "replica": replica or None, **_EVERY,
        }  # fmt: skip
        return rows_of(table(unless_missing(self.get, "/logs", params)).get("data"), "result")

    def node_groups(self) -> list[JsonTable]:
        """The dedicated node groups: `metadata.{id,name}`, `spec.volumes`, `status.{ready_nodes,quota_enabled}`."""
        return rows_of(self.get("/dedicated-node-groups"), "dedicated_node_groups")

    def node_group(self, named: str) -> JsonTable:
        """The node group with that id, else that name. Raises `UserError` where there is none."""
        groups = self.node_groups()
        found = [group for which in (id_of, name_of) for group in groups if which(group) == named]
        if not found:
            have = ", ".join(sorted(f"{name_of(group)} ({id_of(group)})" for group in groups)) or "none"
            raise UserError(f"node_group: there is no node group '{named}'", remedy=f"node groups there are: {have}")
        return found[0]

    def nodes(self, group: str) -> list[JsonTable]:
        """The nodes of a group, by its id: `spec.unschedulable`, `spec.resource.gpu.{allocated,total}`."""
        return self._found(_path("dedicated-node-groups", group, "nodes"), "nodes")

    def reservations(self, group: str) -> list[JsonTable]:
        return self._found(_path("dedicated-node-groups", group, "reservations"), "reservations")

    def storage_permissions(self, volume: str, group: str) -> list[JsonTable]:
        """What may be mounted of a volume: `path_prefix`, `allowed_users`, `subfolder_policy`."""
        return self._found(_path("storage-permission", volume), "permissions", {"nodegroup_id": group})

    def shapes(self, group: str = "") -> list[JsonTable]:
        """Resource shapes, of a node group by its id: `metadata.id`, `spec.{accelerator_num,listable_in,…}`."""
        return rows_of(self.get("/shapes", {"purpose": "job", "node_groups": group or None}), "shapes")

    def secrets(self) -> list[str]:
        found = list_of(self.get("/usersecrets", secret=True), "secrets")
        return [each if isinstance(each, str) else _called(each) for each in found if isinstance(each, (str, dict))]

    def create_secret(self, name: str, value: str) -> None:
        """Makes a secret; one that is there already is an error of Lepton's (409). Doing it twice does no harm."""
        self.send("POST", "/usersecrets", body=[{"name": name, "value": value}], repeatable=True, secret=True)

    def image_pull_secrets(self) -> list[str]:
        found = rows_of(self.get("/imagepullsecrets", secret=True), "imagepullsecrets")
        return [name_of(each) or id_of(each) for each in found]

    def create_image_pull_secret(self, name: str, server: str, user: str, password: str) -> None:
        spec = {"registry_server": server, "username": user, "password": password}
        body = {"metadata": {"id": name, "name": name}, "spec": spec}
        self.send("POST", "/imagepullsecrets", body=body, repeatable=True, secret=True)

    def headers(self) -> Mapping[str, str]:
        """The token; the origin too, where DGX Cloud's gateway asks for it."""
        origin = {"Origin": self.login.origin} if self.login.origin else {}
        return {"Authorization": f"Bearer {self.login.token}", **origin}

    def may_be_stray(self, web: Web) -> bool:
        """Only where the login can be looked for again."""
        return self._again is not None and super().may_be_stray(web)

    def renew(self) -> bool:
        """Reads the login again: somebody may have logged in meanwhile."""
        before = self.login
        with suppress(UserError):  # somebody may be writing the login file just now
            self.login = self._again() if self._again is not None else before
        return self.login != before

    def explain(self, error: UserError, web: Web, request: str) -> None:
        """What to do about a token that is not accepted, or a workspace that does not answer."""
        if isinstance(error, Unreachable):
            error.remedy = _SILENT
        if isinstance(error, Refused) and error.status in (401, 403):
            error.what = f"{error.what}; the token is from {self.login.source}, the workspace is {self.login.workspace}"
            error.args = (error.what,)
            error.remedy = "renew it (lep workspace login, or export LEPTON_WORKSPACE_TOKEN=…); jobs go on meanwhile"

    def _found(self, path: str, key: str, params: Mapping[str, Any] | None = None) -> list[JsonTable]:
        """A list; an empty one where there is no such thing."""
        return rows_of(unless_missing(self.get, path, params), key)

    def _page_of_jobs(self, number: int, params: Mapping[str, Any]) -> Page:
        """A page, with as many rows as it says there are: one that says less of itself was cut on its way."""
        answer, found = self.page("/jobs", "jobs", {**params, "page": number}, jobs=True)
        total = table(answer).get("total")
        if not found and isinstance(total, int) and total > (number - 1) * PAGE:
            raise self.malformed("/jobs", f"says that there are {total} jobs, and has none")
        return Page(found, number + 1, total if isinstance(total, int) else None)


def connect(
    handle: Mapping[str, Any] | None = None, *, patience: float = PATIENCE, say: Say | None = None
) -> LeptonApi:
    """The workspace that a job is in, or the current one: one per thread and patience, so that it is connected once.

    Args:
        say: told once that it does not answer, and is asked again.

    Raises:
        UserError: there is no login.
    """
    login, again = find_login(handle), partial(find_login, handle)
    api = kept_for_thread((login, patience), lambda: LeptonApi(login, patience=patience, again=again))
    api.web.say = say
    return api


def id_of(thing: Mapping[str, Any]) -> str:
    """The platform's own id of something it listed, '' where it has none."""
    metadata = table(thing.get("metadata"))
    return text(metadata.get("id")) or text(thing.get("id")) or text(metadata.get("name"))


def job_id(job: Mapping[str, Any]) -> str:
    """The id by which a job is asked about, '' where it is not said: a name leads to no job."""
    return text(section(job, "metadata").get("id"))


def is_job(thing: Any) -> bool:
    """True if it may be a job: a status that is no table is none of Lepton's."""
    return isinstance(thing, dict) and (thing.get("status") is None or isinstance(thing["status"], dict))


def name_of(thing: Mapping[str, Any]) -> str:
    """The name somebody gave it, '' where it has none."""
    return text(table(thing.get("metadata")).get("name")) or text(thing.get("name"))


def section(thing: Mapping[str, Any] | None, *path: str) -> JsonTable:
    """A table within tables, empty where any of them is missing: `section(job, "status")`."""
    found: Any = thing
    for key in path:
        found = table(found).get(key)
    return table(found)


def rows(thing: Mapping[str, Any] | None, *path: str) -> list[JsonTable]:
    """A list of tables within tables, empty where it is missing: `rows(group, "spec", "volumes")`."""
    return tables(section(thing, *path[:-1]).get(path[-1]))


def _called(secret: JsonTable) -> str:
    return text(secret.get("name")) or name_of(secret) or id_of(secret)


def _path(*parts: str) -> str:
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)
