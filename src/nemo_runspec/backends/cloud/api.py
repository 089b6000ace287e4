"""The base of the clients of all platforms' REST APIs: credentials are renewed, answers checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from nemo_runspec.backends.cloud.renewal import about_a_job, until_it_makes_sense, with_fresh_credentials
from nemo_runspec.errors import UserError
from nemo_runspec.transport.reading import table, tables
from nemo_runspec.transport.web import Malformed, NotKnown, Refused, Reply, Web

JsonTable = dict[str, Any]
T = TypeVar("T")

PATIENCE, AT_ONCE = 60.0, 15.0
"""Seconds that a question may take in all; and one that a person waits for who has not submitted anything yet."""

_USUAL_KEYS = ("entries", "items")
"""Keys below which a list's answer may have its rows instead of its own."""


class CloudApi(ABC):
    """A platform as one thread asks it.

    Every method raises `Refused` for what the platform refuses (4xx), `Unreachable` where it does not answer, or an
    answer makes no sense; those that change something raise `NotKnown` where it is not known whether they did.

    Args:
        identity: what tells a row of a list from the others.
        is_job: whether a row has the shape of a job.
        patience: seconds in all for a question whose trouble may pass.
        timeout: seconds without a byte.

    Attributes:
        web: counts the requests as `web.calls`.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        identity: Callable[[JsonTable], str],
        is_job: Callable[[Any], bool],
        patience: float,
        timeout: float,
    ) -> None:
        self.web = Web(url, name, headers=self.headers, timeout=timeout, patience=patience)
        self._identity = identity
        self._is_job = is_job
        self._accepted: set[Web] = set()

    @property
    def webs(self) -> Sequence[Web | None]:
        """All its connections."""
        return (self.web,)

    @abstractmethod
    def headers(self) -> Mapping[str, str]:
        """The credentials of each request."""

    @abstractmethod
    def renew(self) -> bool:
        """Gets the credentials anew, from where they are kept; False where they are the same."""

    @abstractmethod
    def explain(self, error: UserError, web: Web, request: str) -> None:
        """Adds what to do about an error. `request`: such as `GET /jobs`."""

    def may_be_stray(self, web: Web) -> bool:
        """True if a refusal of credentials may pass by itself: they were accepted before."""
        return web in self._accepted

    def reply(self, method: str, path: str, *, web: Web | None = None, repeatable: bool = False, **more: Any) -> Reply:
        """One request, made again with new credentials where that may help. `more`: as for `Web.reply`."""
        via = web or self.web

        def ask() -> Reply:
            reply = via.reply(method, path, repeatable=repeatable, **more)
            self._accepted.add(via)
            return reply

        try:
            if repeatable and self.may_be_stray(via):
                return with_fresh_credentials(ask, self.renew)
            return self._once_more(ask)
        except UserError as error:
            self.explain(error, via, f"{method} {path}")
            raise

    def get(self, path: str, params: Mapping[str, Any] | None = None, *, secret: bool = False) -> Any:
        """The JSON that is there."""
        return self.send("GET", path, params=params, secret=secret, repeatable=True)

    def send(self, method: str, path: str, **more: Any) -> Any:
        """The JSON of an answer. What is none was said by something before the platform, a gateway or a proxy.

        So was a page in HTML that is answered to a change: only nothing at all, or JSON, says that it was made.
        """
        reply = self.reply(method, path, **more)
        try:
            return reply.json()
        except UserError as error:
            odd = (Malformed if method == "GET" else NotKnown)(error.what, where=error.where)
            self.explain(odd, self.web, f"{method} {path}")
            raise odd from None

    def change(self, method: str, path: str, **more: Any) -> bool:
        """Makes a change that may be made twice, of something that may be gone: False where it is."""
        try:
            until_it_makes_sense(lambda: self.send(method, path, repeatable=True, **more))
        except Refused as error:
            if error.status != 404:
                raise
            return False
        return True

    def job_at(self, path: str, id: str, params: Mapping[str, Any] | None = None) -> JsonTable | None:
        """A job; None where the platform has none of that id (404).

        Raises:
            Malformed: what it answers is not that job.
        """
        try:
            job: JsonTable = self.get(path, params)
        except Refused as error:
            if error.status != 404:
                raise about_a_job(error) from None
            return None
        if not self._is_job(job) or self._identity(job) != id:
            raise self.malformed(path, "is not that job")
        return job

    def page(
        self, path: str, key: str, params: Mapping[str, Any], *, jobs: bool = False
    ) -> tuple[Any, list[JsonTable]]:
        """A page of a list: its answer, and its rows.

        Args:
            jobs: it is the list of all jobs: whoever says that there is none (404) is not the platform.

        Raises:
            Malformed: it is no page.
        """
        try:
            answer = self.get(path, params)
        except Refused as error:
            if jobs and error.status == 404:
                raise self.malformed(path, "is that there is no such list (HTTP 404)") from None
            raise (about_a_job(error) if jobs else error) from None
        rows = page_rows(answer, key, self._is_job)
        if rows is None:
            raise self.malformed(path, f"is no list of {key}")
        return answer, rows

    def malformed(self, path: str, what: str) -> Malformed:
        """The error of an answer of another shape than it should have."""
        error = Malformed(f"{self.web.name}'s answer {what}", where=f"{self.web.base}{path}")
        self.explain(error, self.web, f"GET {path}")
        return error

    def _once_more(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except Refused as error:
            if error.status != 401 or not self.renew():
                raise
        return ask()


def page_rows(answer: Any, key: str, is_row: Callable[[Any], bool]) -> list[JsonTable] | None:
    """The rows of a page, None for what is no page."""
    found = _named(answer, key)
    return found if isinstance(found, list) and all(map(is_row, found)) else None


def list_of(answer: Any, key: str) -> list[Any]:
    """The list of an answer that is read less strictly: where it has no name that is known, the only one there is."""
    found = _named(answer, key)
    lists = [value for value in table(answer).values() if isinstance(value, list)]
    return found if isinstance(found, list) else lists[0] if len(lists) == 1 else []


def rows_of(answer: Any, key: str) -> list[JsonTable]:
    """The tables of such a list."""
    return tables(list_of(answer, key))


def _named(answer: Any, key: str) -> Any:
    """What is below `key` or a usual one, null being an empty list; a bare answer itself; None where nothing is."""
    if not isinstance(answer, dict):
        return answer
    found = next((name for name in (key, *_USUAL_KEYS) if name in answer), None)
    return None if found is None else answer[found] if answer[found] is not None else []
