"""A platform that is reached over HTTP: one session, bounded patience, and errors that say whether trying again helps.

`requests` does the talking: it knows proxies, certificates (`REQUESTS_CA_BUNDLE`) and connections that are kept open,
and is installed with NeMo-Run. It is imported when something is asked for (0.2 s). TLS is always verified.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from nemo_runspec.errors import UserError
from nemo_runspec.text import size
from nemo_runspec.tracing import asked
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.body import Endless, Limits, body_of
from nemo_runspec.transport.http_text import (
    content_of,
    error_text,
    http_date,
    message_of,
    one_short_line,
    retry_after,
    shown_url,
    without_secrets,
)
from nemo_runspec.transport.reading import parsed

_FIRST, _LONGEST = 0.5, 15.0
"""Seconds between two tries."""

_NOT_DONE = frozenset({429})
"""Answers by which a server says that it has not done what was asked (RFC 6585 §4).

503 is none of them: a gateway says it, with or without Retry-After, also when the server behind it has done it.
"""


class Refused(UserError):
    """The platform understood and said no (4xx), or is elsewhere (3xx): asking again would not help.

    Attributes:
        status: of the answer.
        body: its JSON, else its text.
    """

    def __init__(
        self, what: str, *, status: int, body: Any, where: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.status = status
        self.body = body


class NotKnown(Unreachable):
    """The connection broke under a request that changes something, or the server failed: it may have been done."""


class Malformed(Unreachable):
    """An answer that is none: HTML, an empty body, JSON of another shape. What was asked about is not known by it.

    Something before the platform has said it, or a part of the platform that is being replaced: it may pass.
    """


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer.

    Args:
        url: what was asked, to be shown: without its parameters and a login.
        secret: it may hold credentials, or what was sent of them: nothing of it is ever shown.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    url: str = ""
    secret: bool = False

    def json(self) -> Any:
        """What it says, as `reading.parsed`; None where it says nothing. Raises `UserError` where that is no JSON."""
        if not self.body.strip():
            return None
        try:
            return parsed(self.body)
        except ValueError:
            said = "" if self.secret else f": {one_short_line(self.body)}"
            raise UserError(f"the answer is no JSON{said}", where=self.url) from None


class Web:
    """One platform. It is asked by one thread at a time.

    Args:
        base: URL that paths are added to.
        name: of the platform, for a person.
        headers: called for every request, so that a token may be renewed.
        timeout: seconds without a byte.
        patience: seconds in all for what may pass by itself.
        limits: of an answer's body.

    Attributes:
        calls: how many requests were made. `say`: told, once, that a request is made again, for a person who waits.
    """

    def __init__(
        self,
        base: str,
        name: str,
        *,
        headers: Callable[[], Mapping[str, str]],
        timeout: float = 30.0,
        patience: float = 60.0,
        sleep: Callable[[float], None] = time.sleep,
        limits: Limits | None = None,
    ) -> None:
        self.base = base.rstrip("/")
        self.name = name
        self.calls = 0
        self.say: Callable[[str], object] | None = None
        self._headers = headers
        self._timeout = timeout
        self._patience = patience
        self._sleep = sleep
        self._limits = limits or Limits()
        self._session: Any = None
        self._ahead: float | None = None

    @property
    def dated(self) -> bool:
        """True if any answer has told the platform's time: `time` is its own from then on."""
        return self._ahead is not None

    def time(self) -> float:
        """Seconds since 1970 by the platform's clock, as its last answer's `Date` has it; by ours until there is one.

        Times that a platform tells are compared with this one: its clock may be hours away from ours.
        """
        return time.time() + (self._ahead or 0.0)

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """The JSON there.

        Raises:
            Refused: 4xx. Unreachable: no answer, or none but failures, for all of the patience. A redirect is followed.
        """
        return self.reply("GET", path, params=params, repeatable=True).json()

    def post(self, path: str, body: Any, *, repeatable: bool = False, secret: bool = False) -> Any:
        """Sends JSON; the JSON that is answered.

        Args:
            repeatable: doing it twice is the same as doing it once.
            secret: as `reply`.

        Raises:
            Refused: 4xx, or a redirect: following it would make a GET of it (RFC 9110 §15.4).
            NotKnown: it may have been done. Unreachable: it was not done.
        """
        return self.reply("POST", path, body=body, repeatable=repeatable, secret=secret).json()

    def delete(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """As `post`, for a removal, which may be done twice."""
        return self.reply("DELETE", path, params=params, repeatable=True).json()

    def reply(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        repeatable: bool = False,
        secret: bool = False,
    ) -> Reply:
        """One request, made again while that may help. Raises as `get` and `post`.

        Args:
            params: of the query; those that are None are left out.
            secret: credentials are sent or answered: no word of the answer is shown, whatever is wrong with it.
        """
        url = path if "://" in path else self.base + path
        end, pause = time.monotonic() + self._patience, _FIRST
        while True:
            try:
                with asked(self.name, lambda: f"{method} {shown_url(url)}") as question:
                    reply = self._once(method, url, params, body, secret)
                    question.answer = f"HTTP {reply.status}, {size(len(reply.body))}"
                return self._checked(reply)
            except _Passing as trouble:
                again = trouble.not_done or repeatable
                wait = max(trouble.after, pause * random.uniform(0.8, 1.2))  # many clients must not come back as one
                if not again or time.monotonic() + wait > end:
                    raise self._gave_up(trouble, method, url, again=again) from None
                self._notice(trouble)
                self._sleep(wait)
                pause = min(pause * 2, _LONGEST)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Less patience for a while: for questions whose answers can be done without."""
        before = self._patience
        self._patience = min(before, seconds)
        try:
            yield
        finally:
            self._patience = before

    def _once(self, method: str, url: str, params: Mapping[str, Any] | None, body: Any, secret: bool) -> Reply:
        import requests

        if self._session is None:
            self._session = requests.Session()
            self._session.trust_env = True
        self.calls += 1
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        kind = {} if data is None else {"Content-Type": "application/json"}
        headers = {"Accept": "application/json", **kind, **self._headers()}
        try:
            answer = self._session.request(
                method,
                url,
                params=params,
                data=data,
                headers=headers,
                timeout=self._timeout,
                auth=_keep,
                allow_redirects=method == "GET",
                stream=True,
            )
            content = body_of(answer, self._limits)
        except Endless:
            raise _Passing("its answer does not end", not_done=False) from None
        except requests.exceptions.SSLError as error:
            raise UserError(
                f"{self.name}: its certificate is not trusted: {one_short_line(without_secrets(str(error), url))}",
                where=shown_url(url),
                remedy="REQUESTS_CA_BUNDLE names a file of certificates to trust",
            ) from None
        except (requests.exceptions.ConnectTimeout, requests.exceptions.ProxyError) as error:
            raise _Passing(error_text(error, url), not_done=True) from None
        except requests.exceptions.ConnectionError as error:
            raise _Passing(error_text(error, url), not_done=_never_connected(error)) from None
        except requests.exceptions.InvalidHeader:  # its words are the header's: the token
            raise UserError(
                f"{self.name}: the token, or another header, has characters that cannot be sent", where=shown_url(url)
            ) from None
        except (requests.exceptions.InvalidURL, requests.exceptions.MissingSchema, ValueError) as error:
            said = one_short_line(without_secrets(str(error), url))
            raise UserError(f"{self.name}: {said}", where=shown_url(url)) from None
        except requests.exceptions.RequestException as error:
            raise _Passing(error_text(error, url), not_done=False) from None
        told = http_date(answer.headers.get("Date"))
        if told is not None:
            self._ahead = told - time.time()
        return Reply(answer.status_code, answer.headers, content, shown_url(url), secret)

    def _checked(self, reply: Reply) -> Reply:
        if reply.status < 300:
            return reply
        if reply.status < 400:
            raise self._elsewhere(reply)
        said = "no word of it is shown, as it may hold credentials" if reply.secret else message_of(reply.body)
        if reply.status == 429 or reply.status >= 500:
            after = retry_after(reply.headers)
            raise _Passing(f"HTTP {reply.status}: {said}", not_done=reply.status in _NOT_DONE, after=after)
        raise Refused(
            f"{self.name} refuses: {said} (HTTP {reply.status})",
            status=reply.status,
            body=None if reply.secret else content_of(reply.body),
            where=reply.url,
        )

    def _elsewhere(self, reply: Reply) -> Refused:
        """The place it names is shown without its parameters, which may be secret."""
        named = shown_url(urljoin(reply.url, reply.headers.get("Location") or ""))
        return Refused(
            f"{self.name} answers that it is at {named} (HTTP {reply.status})",
            status=reply.status,
            body=None if reply.secret else content_of(reply.body),
            where=reply.url,
            remedy=f"let the URL of {self.name}, in the profile or the environment, be the one that leads there",
        )

    def _notice(self, trouble: _Passing) -> None:
        say, self.say = self.say, None
        if say is not None:
            say(f"{self.name} does not answer as it should ({trouble}); asking again")

    def _gave_up(self, trouble: _Passing, method: str, url: str, *, again: bool) -> Unreachable:
        kind = Unreachable if again or method == "GET" else NotKnown
        what = f"{self.name} does not answer as it should: {trouble}"
        return kind(what, where=shown_url(url), remedy="try again later")


class _Passing(Exception):
    """What may pass by itself. `not_done`: nothing was changed there; `after`: seconds it asks to be left alone."""

    def __init__(self, said: str, *, not_done: bool, after: float = 0.0) -> None:
        super().__init__(said)
        self.not_done = not_done
        self.after = after


def _keep(request: Any) -> Any:
    """Keeps our own Authorization header: `requests` would put an entry of ~/.netrc in its place."""
    return request


def _never_connected(error: Exception) -> bool:
    from urllib3.exceptions import NewConnectionError

    cause = error.args[0] if error.args else None
    return isinstance(getattr(cause, "reason", cause), NewConnectionError)
