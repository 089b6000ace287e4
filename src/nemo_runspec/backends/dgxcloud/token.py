"""The application's token: asked for once, kept in this process until it is about to expire, never written down."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.transport.web import Refused, Web

_MARGIN = 60.0
"""Seconds before its end at which a token is no longer used; at most a tenth of its life."""

_REMEDY = (
    "look at client_id and client_secret of the profile, or make a new application in run:ai (Access, Applications)"
)


class Token:
    """One application's token. Several threads may ask for it; one of them fetches it.

    Args:
        fetch: asks the platform; the answer of `POST /token`.
    """

    def __init__(self, fetch: Callable[[], Any], clock: Callable[[], float] = time.time) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._value = ""
        self._until = 0.0

    def value(self) -> str:
        """A token that holds for a while yet. Raises as the fetch."""
        with self._lock:
            if not self._value or self._clock() >= self._until:
                self._renew()
            return self._value

    def refused(self, value: str) -> None:
        """The platform does not take this one any more. Forgets it, unless another thread has renewed it already."""
        with self._lock:
            if value == self._value:
                self._value = ""

    def _renew(self) -> None:
        self._value = ""
        answer = self._fetch()
        if not isinstance(answer, dict) or not answer.get("accessToken"):
            raise UserError("run:ai answers the request for a token without one", remedy="look at base_url")
        now = self._clock()
        life = _life(answer, now)
        self._value = str(answer["accessToken"])
        self._until = now + life - min(_MARGIN, life / 10)


def fetch_token(web: Web, client_id: str, client_secret: str) -> Any:
    """Asks for a token. Its form is that of NeMo-Run 0.11.1 and of run:ai's API (2.24, `POST /api/v1/token`).

    Raises:
        UserError: the credentials are not taken. Unreachable: no answer.
    """
    body = {"grantType": "client_credentials", "clientId": client_id, "clientSecret": client_secret}
    try:
        return web.post("/token", body, repeatable=True)
    except Refused as error:
        if error.status == 404:
            raise UserError(
                "there is no run:ai API at base_url", where=web.base, remedy="it ends in /api/v1, mostly"
            ) from None
        # The server's own words are left out: they may repeat what was sent.
        raise UserError(
            f"run:ai does not accept the application's credentials (HTTP {error.status})",
            where=web.base,
            remedy=_REMEDY,
        ) from None


def _life(answer: dict[str, Any], now: float) -> float:
    """Seconds the token holds: as the answer says, else as the token itself does, else until it is refused."""
    said = answer.get("expiresIn") or answer.get("expires_in")
    if isinstance(said, (int, float)) and said > 0:
        return float(said)
    end = _claims(str(answer["accessToken"])).get("exp")
    return max(0.0, float(end) - now) if isinstance(end, (int, float)) else float("inf")


def _claims(token: str) -> dict[str, Any]:
    """The middle part of a JSON Web Token (RFC 7519); nothing is verified, as nothing is decided by it."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
