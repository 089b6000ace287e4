"""What a `labs.web` server gets, gives and records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


class HttpError(Exception):
    """A refusal; `WebLab.refusal` makes its body. `extra` joins the JSON."""

    def __init__(self, status: int, message: str, *, headers: Mapping[str, str] | None = None, **extra: Any) -> None:
        super().__init__(message)
        self.status, self.message, self.extra = status, message, extra
        self.headers = dict(headers or {})


@dataclass
class Request:
    """What came. `target` is the path with its query as sent, undecoded; `names` the path's parts in braces."""

    method: str
    path: str
    target: str
    params: dict[str, str]
    headers: Mapping[str, str]
    """Looked up without regard to case."""
    body: bytes
    names: dict[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        """The body. Raises: HttpError 415 without JSON's content type, 400 where it is no JSON."""
        if "json" not in self.headers.get("Content-Type", ""):
            raise HttpError(415, "Content-Type is not application/json")
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise HttpError(400, f"the body is no JSON: {error}") from None


@dataclass
class Answer:
    """`body`: bytes, an iterator of bytes (sent in chunks as they come), or anything else as JSON; None is empty."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Call:
    """A recorded call; `body` is parsed where it is JSON; `status` is 0 until it is answered, and when it never is."""

    method: str
    path: str
    params: dict[str, str]
    body: Any
    headers: dict[str, str]
    time: float
    status: int = 0
    target: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.target or self.path} -> {self.status or 'no answer'}"


@dataclass
class Fault:
    """What goes wrong with calls that match; see `WebLab.fault`."""

    match: str
    kind: str
    times: int | None
    after: int
    seconds: float
    retry_after: float | None
    body: bytes = b""
    change: Callable[[Any], Any] | None = None
