"""How a `labs.web` server speaks HTTP: reads requests, sends or breaks answers."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from labs.web_types import Answer, Call, Fault, HttpError, Request

if TYPE_CHECKING:
    from labs.web import WebLab

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_DONE = ("slow", "cut", "halved", "changed")
"""Faults under which what was asked for is done."""
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing the socket sends a reset instead of a FIN."""


_JSON = "application/json"
STRAY: Mapping[str, tuple[bytes, str]] = {
    "garbage": (b"<html><body>gateway</body></html>", "text/html"),
    "empty": (b"", _JSON),
    "null": (b"null", _JSON),
    "list": (b"[]", _JSON),
    "object": (b"{}", _JSON),
    "word": (b'"ok"', _JSON),
}
"""Answers with 200 that are none, as a gateway or a server that is being replaced gives them."""

_PAGES: Mapping[str, slice] = {"emptied": slice(0, 0), "lacking": slice(1, None), "rowless": slice(0, 0)}
"""Pages that say less than there is: which of their rows are left. A `rowless` one says how many there were."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], lab: WebLab) -> None:
        self.lab = lab
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""

    def break_connections(self) -> None:
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Server
    _released: threading.Event

    def _handle(self) -> None:
        request = self._request()
        call = _recorded(request)
        with self.server.lab.doing() as may:
            if not may:
                self._break()
                return
            self._released = self.server.lab.released
            answer, fault = self._done(request, call)
        self._send(answer, call, fault)

    def _done(self, request: Request, call: Call) -> tuple[Answer, Fault | None]:
        lab = self.server.lab
        lab.calls.append(call)
        fault = lab.next_fault(call)
        kind = fault.kind if fault else ""
        if fault is None or kind in (*_DONE, *_PAGES) or kind.endswith("_after"):
            if fault and kind == "slow":
                lab.hold(1.0 if fault.seconds < 0 else fault.seconds, self._released)
            return lab.perform(request, call), fault
        return Answer(), fault

    def _send(self, answer: Answer, call: Call, fault: Fault | None) -> None:
        kind = fault.kind.removesuffix("_after") if fault else ""
        if fault and kind in ("reset", "timeout"):
            if kind == "timeout":
                self.server.lab.hold(fault.seconds, self._released)
            self._break()
            return
        if fault and kind.isdigit():
            after = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
            answer = self.server.lab.refusal(HttpError(int(kind), f"made to fail with {kind}", headers=after))
        elif kind in STRAY:
            body, content = STRAY[kind]
            answer = Answer(200, body, {"Content-Type": content})
        elif kind in _PAGES:
            answer = Answer(answer.status, _with_rows(answer.body, kind), answer.headers)
        elif fault and kind in _REPLACED:
            answer = _REPLACED[kind](answer, fault)
        call.status = answer.status
        self._write(answer, cut=kind == "cut")

    def _write(self, answer: Answer, *, cut: bool) -> None:
        body, headers = _encoded(answer)
        self.send_response(answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        if isinstance(body, bytes):
            if "Content-Length" not in headers and answer.status not in (204, 304):
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[: len(body) // 2] if cut else body)
            if cut:
                self._break()
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._stream(body, cut=cut)

    def _stream(self, chunks: Iterator[bytes], *, cut: bool) -> None:
        try:
            for chunk in chunks:
                if chunk:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                    self.wfile.flush()
                if cut:
                    self._break()
                    return
            self.wfile.write(b"0\r\n\r\n")
        finally:
            close = getattr(chunks, "close", None)
            if close:
                close()

    def _break(self) -> None:
        with suppress(OSError):
            self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.close_connection = True
        self.rfile.close()
        # Only closing the last reference sends the reset; a shutdown would send a FIN first.
        self.connection.close()

    def _request(self) -> Request:
        path, query = urlsplit(self.path).path, urlsplit(self.path).query
        chunked = "chunked" in (self.headers.get("Transfer-Encoding") or "")
        body = b"".join(self._chunks()) if chunked else self._read(int(self.headers.get("Content-Length") or 0))
        return Request(
            self.command,
            unquote(path),
            self.path,
            dict(parse_qsl(query, keep_blank_values=True)),
            self.headers,  # type: ignore[arg-type]  # a Message: a mapping that does not regard case
            body,
        )

    def _chunks(self) -> Iterator[bytes]:
        while length := int(self.rfile.readline().partition(b";")[0] or b"x", 16):
            yield self._read(length)
            self.rfile.readline()
        self.rfile.readline()

    def _read(self, length: int) -> bytes:
        body = self.rfile.read(length)
        if len(body) < length:
            raise ConnectionError("its sender went away in the middle of it: no server does half a request")
        return body

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The `Date` header, by the server's own clock."""
        return super().date_time_string(self.server.lab.time() if timestamp is None else timestamp)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: Any) -> None:
        """`calls` is the log."""


for _method in METHODS:
    setattr(_Handler, f"do_{_method}", _Handler._handle)


def _recorded(request: Request) -> Call:
    body: Any = request.body
    with suppress(ValueError):
        body = json.loads(request.body) if request.body else None
    headers = dict(request.headers.items())
    return Call(request.method, request.path, request.params, body, headers, time.time(), target=request.target)


def _with_rows(body: Any, kind: str) -> Any:
    """A list, or an object with lists, of which some rows are left."""
    left = _PAGES[kind]
    if isinstance(body, list):
        return body[left]
    kept = {key: value[left] if isinstance(value, list) else value for key, value in body.items() if key != "next"}
    rows = [value for value in kept.values() if isinstance(value, list)]
    return {**kept, "total": sum(map(len, rows))} if "total" in kept and kind != "rowless" else kept


def _says(answer: Answer, fault: Fault) -> Answer:
    return Answer(200, fault.body, {"Content-Type": "application/json"})


def _halved(answer: Answer, fault: Fault) -> Answer:
    body, headers = _encoded(answer)
    body = body if isinstance(body, bytes) else b"".join(body)
    return Answer(answer.status, body[: len(body) // 2], headers)


def _changed(answer: Answer, fault: Fault) -> Answer:
    """Only answers in JSON are changed. What JSON has no word for, such as NaN, is written as Python does."""
    if isinstance(answer.body, (bytes, Iterator)) or fault.change is None:
        return answer
    body = json.dumps(fault.change(json.loads(json.dumps(answer.body)))).encode()
    return Answer(answer.status, body, {"Content-Type": "application/json"})


def _dripping(answer: Answer, fault: Fault) -> Answer:
    return Answer(200, _spaces(1, 0.05 if fault.seconds < 0 else fault.seconds), {"Content-Type": "application/json"})


def _endless(answer: Answer, fault: Fault) -> Answer:
    return Answer(200, _spaces(1 << 20, 0.0), {"Content-Type": "application/json"})


def _spaces(size: int, pause: float) -> Iterator[bytes]:
    """A body that does not end before its reader goes away."""
    while True:
        yield b" " * size
        time.sleep(pause)


_REPLACED: Mapping[str, Callable[[Answer, Fault], Answer]] = {
    "says": _says,
    "halved": _halved,
    "changed": _changed,
    "drip": _dripping,
    "endless": _endless,
}


def _encoded(answer: Answer) -> tuple[bytes | Iterator[bytes], dict[str, str]]:
    headers = dict(answer.headers)
    if answer.body is None:
        return b"", headers
    if isinstance(answer.body, bytes):
        headers.setdefault("Content-Type", "application/octet-stream")
        return answer.body, headers
    if isinstance(answer.body, Iterator):
        headers.setdefault("Content-Type", "text/plain; charset=utf-8")
        return answer.body, headers
    headers.setdefault("Content-Type", "application/json")
    return json.dumps(answer.body, ensure_ascii=False).encode(), headers
