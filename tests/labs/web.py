"""A strict HTTP server on loopback for tests: routes by method and path, every call recorded, faults on demand.

    class Shop(WebLab):
        prefix = "/api/v1"

        @route("GET", "/things/{name}")
        def thing(self, request: Request) -> Any:
            if request.names["name"] not in self.things:
                raise HttpError(404, "no such thing")
            return self.things[request.names["name"]]     # 200 and JSON; or an Answer

A path without a route is answered with 404, a method without one with 405; both are kept in `strays`. What a route
raises otherwise is answered with 500 and kept in `crashes`. Fixtures assert at the end that both are empty (`tidy`).
"""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from labs.web_server import Server
from labs.web_types import Answer, Call, Fault, HttpError, Request

__all__ = ["Answer", "Call", "Fault", "HttpError", "Request", "Route", "WebLab", "route"]

Route = Callable[[Any, Request], Any]


def route(method: str, pattern: str) -> Callable[[Route], Route]:
    """Makes a method the answer to `method pattern`.

    `{x}` in it is a part of the path, `{x:path}` may have slashes, `{x:a|b}` is one of these words.
    """

    def mark(function: Route) -> Route:
        function.__dict__.setdefault("routes", []).append((method, pattern))
        return function

    return mark


class WebLab:
    """The server; it listens from the start until `close()`. Routes may run in several threads at once."""

    prefix: ClassVar[str] = ""
    """What all routes' paths begin with."""

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        self.calls: list[Call] = []
        self.strays: list[Call] = []
        self.crashes: list[str] = []
        self._faults: list[Fault] = []
        self.audit: Callable[[str, Request, Answer], None] | None = None
        """Told of each answer that a route gives: the route (`GET /things/{name}`), what was asked, the answer."""
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._quiet = threading.Condition()
        self._under_way = self._resets = 0
        self.skew = 0.0
        """Seconds that the server's clock is ahead of this machine's."""
        self._routes = list(_routes_of(type(self)))
        self._server = Server((host, port), self)
        self.host = host
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def origin(self) -> str:
        """`http://HOST:PORT`, without the prefix; the host is 127.0.0.1 unless it was made with another."""
        return f"http://{self.host}:{self.port}"

    def fault(
        self,
        match: str = "*",
        kind: str = "500",
        *,
        times: int | None = 1,
        after: int = 0,
        seconds: float | None = None,
        retry_after: float | None = None,
        body: bytes = b"",
        change: Callable[[Any], Any] | None = None,
    ) -> Fault:
        """Breaks the next calls that match.

        Args:
            match: `METHOD /path` with wildcards (`*` also matches slashes), the path with or without the prefix;
                or `*`. Matched before authentication.
            kind: a status such as `429` (nothing is done); `<status>_after` (it is done, then that answer);
                `reset` (nothing is done, the connection is reset), `reset_after` (it is done first);
                `slow` (answered after `seconds`, by default 1); `timeout` (no answer for `seconds`, by default for
                ever, then a reset; nothing is done); `timeout_after` (it is done first); `garbage` (200 and HTML;
                nothing is done), and so `empty` (no body), `null`, `list` (`[]`), `object` (`{}`), `word` (a text),
                each with `_after` done first; `cut` (it is done; the answer breaks off in its middle, and the
                connection with it); `halved` (it is done; half of the answer, as a whole one); `says` (200 and
                `body`, nothing is done); `says_after` (it is done first); `changed` (it is done; the JSON of the
                answer is what `change` makes of it); `emptied` (it is done, and the page that is answered has no
                rows), `rowless` (and says how many there are), `lacking` (it lacks its first row); `drip` (nothing is
                done, and the answer comes byte by byte, one in `seconds`, by default 0.05, without an end), `endless`
                (as fast as it can), each with `_after` done first.
            times: how many calls; None is all.
            after: how many that match pass before.
            retry_after: seconds for the header of that name.
        """
        made = Fault(match, kind, times, after, -1.0 if seconds is None else seconds, retry_after, body, change)
        with self._lock:
            self._faults.append(made)
        return made

    def time(self) -> float:
        """Seconds since 1970 by the server's own clock."""
        return time.time() + self.skew

    def calls_of(self, match: str) -> list[Call]:
        """The calls so far that match, as `fault` matches."""
        return [call for call in list(self.calls) if self._matches(match, call.method, call.path)]

    def quiet_faults(self) -> None:
        """No fault strikes from now on."""
        with self._lock:
            for each in self._faults:
                each.times = 0

    def reset(self) -> None:
        """Forgets calls, strays, crashes and faults, and lets go of calls that a fault holds."""
        with self.quiet():
            for record in (self.calls, self.strays, self.crashes):
                record.clear()
            self.skew = 0.0

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """No call is being done meanwhile, and faults are over: a late one must not change what is as new already.

        Raises:
            AssertionError: a call does not end.
        """
        with self._quiet:
            self._resets += 1
        try:
            with self._lock:
                self._faults.clear()
                self._released.set()
                self._released = threading.Event()
            with self._quiet:
                assert self._quiet.wait_for(lambda: self._under_way == 0, 120), "a call does not end"
            yield
        finally:
            with self._quiet:
                self._resets -= 1

    @contextmanager
    def doing(self) -> Iterator[bool]:
        """While a call is done; False, and it must not be, where everything is just made as new."""
        with self._quiet:
            may = self._resets == 0
            self._under_way += may
        try:
            yield may
        finally:
            with self._quiet:
                self._under_way -= may
                self._quiet.notify_all()

    def diagnose(self) -> str:
        """What happened, for the report of a test that failed: overridden."""
        return "\n".join(map(str, self.calls[-60:]))

    def tidy(self) -> None:
        """Raises AssertionError where a call was not documented or a route broke."""
        assert not self.crashes, "\n".join(self.crashes)
        assert not self.strays, f"not documented: {[str(call) for call in self.strays]}"

    def close(self) -> None:
        """Stops listening and breaks all connections."""
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._server.break_connections()
        self._thread.join(10)

    def admit(self, request: Request) -> None:
        """Authentication, before anything else is looked at: overridden; raises HttpError."""

    def refusal(self, error: HttpError) -> Answer:
        """How this server puts a refusal: overridden."""
        return Answer(error.status, {"code": error.status, "message": error.message, **error.extra}, error.headers)

    def stray(self, request: Request, allowed: Iterable[str]) -> HttpError:
        """The refusal of a call that is not documented; `allowed` are the methods of a known path."""
        if allowed:
            return HttpError(405, "Method Not Allowed", headers={"Allow": ", ".join(sorted(allowed))})
        return HttpError(404, f"no such path: {request.path}")

    def perform(self, request: Request, call: Call) -> Answer:
        """Admits and routes one request; never raises."""
        try:
            self.admit(request)
            found, allowed = self._find(request)
            if found is None:
                self.strays.append(call)
                raise self.stray(request, allowed)
            answer = found(self, request)
            answer = answer if isinstance(answer, Answer) else Answer(body=answer)
            if self.audit is not None:
                self.audit(f"{request.method} {found.__dict__['routes'][0][1]}", request, answer)
            return answer
        except HttpError as error:
            return self.refusal(error)
        except Exception:  # noqa: BLE001  (a defect of the lab: said to the client and to the test)
            self.crashes.append(f"{call}\n{traceback.format_exc()}")
            return self.refusal(HttpError(500, "the lab broke"))

    def next_fault(self, call: Call) -> Fault | None:
        """The fault that this call has, counted down."""
        with self._lock:
            for fault in self._faults:
                if not self._matches(fault.match, call.method, call.path):
                    continue
                if fault.after > 0:
                    fault.after -= 1
                    continue
                if fault.times is not None:
                    if fault.times <= 0:
                        continue
                    fault.times -= 1
                return fault
        return None

    @property
    def released(self) -> threading.Event:
        """What the next reset sets: to be asked for before the fault, which may be gone by then."""
        with self._lock:
            return self._released

    def hold(self, seconds: float, released: threading.Event | None = None) -> None:
        """Waits that long, for ever when negative; a reset ends it."""
        (released or self.released).wait(None if seconds < 0 else seconds)

    def _find(self, request: Request) -> tuple[Route | None, set[str]]:
        allowed: set[str] = set()
        for method, pattern, function in self._routes:
            hit = pattern.fullmatch(request.path)
            if hit and method == request.method:
                request.names = hit.groupdict()
                return function, set()
            if hit:
                allowed.add(method)
        return None, allowed

    def _matches(self, match: str, method: str, path: str) -> bool:
        wanted, _, pattern = match.rpartition(" ")
        short = path[len(self.prefix) :] if path.startswith(self.prefix) else path
        return wanted in ("", "*", method) and (fnmatchcase(path, pattern) or fnmatchcase(short, pattern))


def _routes_of(kind: type[WebLab]) -> Iterator[tuple[str, re.Pattern[str], Route]]:
    for name in dir(kind):
        function = getattr(kind, name)
        for method, pattern in getattr(function, "routes", ()):
            yield method, _compiled(kind.prefix + pattern), function


def _compiled(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)(?::([^}]+))?\}", pattern)
    made = re.escape(parts[0])
    for name, kind, literal in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        inner = {None: "[^/]+", "path": ".*"}.get(kind, kind)
        made += f"(?P<{name}>{inner}){re.escape(literal)}"
    return re.compile(made)
