"""Texts of HTTP requests and answers for a person, in a line and without credentials; and their dates."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from nemo_runspec.text import shorten
from nemo_runspec.transport.reading import parsed

_LONGEST = 300
"""Characters of a server's own words that are shown."""

_LOGIN = re.compile(r"(^|//)[^/\s]*@")
_PARAMETERS = re.compile(r"[?#]\S+")
"""What may be secret of a URL in a text: `user:password@`, and what follows a `?`, such as a presigned signature."""


def shown_url(url: str) -> str:
    """A URL for a person, without what may be secret of it. It need not be a good one, so it is not parsed."""
    return _LOGIN.sub(r"\1", re.split("[?#]", url, maxsplit=1)[0], count=1)


def without_secrets(text: str, url: str) -> str:
    """What an exception says, in which that URL, the path of it, or the one it was redirected to may stand."""
    return _LOGIN.sub(r"\1", _PARAMETERS.sub("", text.replace(url, shown_url(url))))


def error_text(error: Exception, url: str) -> str:
    """An exception of `requests` in few words: the innermost reason."""
    cause: Any = error.args[0] if error.args else error
    cause = getattr(cause, "reason", None) or cause
    text = str(cause).rpartition(": ")[2] if "object at 0x" in str(cause) else str(cause)
    return one_short_line(without_secrets(text, url) or type(error).__name__)


def message_of(body: bytes) -> str:
    """The server's own words."""
    said = content_of(body)
    if isinstance(said, dict):
        for key in ("message", "detail", "error", "msg", "details", "title"):
            if said.get(key):
                return one_short_line(said[key] if isinstance(said[key], str) else json.dumps(said[key]))
    return one_short_line(said if isinstance(said, str) else json.dumps(said)) or "no word"


def content_of(body: bytes) -> Any:
    """An answer's JSON, else its text."""
    try:
        return parsed(body)
    except ValueError:
        return body.decode("utf-8", "replace").strip()


def one_short_line(text: str | bytes) -> str:
    """One line of a server's own words, cut."""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return shorten(" ".join(text.split()), _LONGEST)


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds, or those from the answer's own date to the one it names (RFC 9110 §10.2.3); 0 for neither.

    The server's clock counts for both dates: ours may be another one.
    """
    value = headers.get("Retry-After")
    if not value:
        return 0.0
    with suppress(ValueError):
        return max(0.0, float(value))
    now = http_date(headers.get("Date"))
    until = http_date(value)
    return max(0.0, until - (time.time() if now is None else now)) if until is not None else 0.0


def http_date(value: str | None) -> float | None:
    """A date as HTTP headers write it, in seconds since 1970; None for what is none."""
    try:
        return parsedate_to_datetime(value or "").timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
