"""The application's token: asked for once, kept in this process until it is about to expire, never written down."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from nemo_runspec.backends.cloud.renewal import with_fresh_credentials
from nemo_runspec.errors import Code, UserError
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.reading import number, parsed, table, text
from nemo_runspec.transport.web import Malformed, Refused, Web

_MARGIN = 60.0
"""Seconds before its end at which a token is no longer used; at most a tenth of its life."""

_REMEDY = "look at client_id and client_secret, or make a new application in run:ai (Access, Applications)"

_OF_CREDENTIALS = frozenset({400, 401, 403})
"""Statuses by which run:ai refuses credentials, or their spelling. Others are of something between here and there."""

_SPELLINGS = (
    ("client_credentials", "clientId", "clientSecret"),
    ("client_credentials", "clientID", "clientSecret"),
    ("app_token", "AppId", "AppSecret"),
)
"""Grant type and fields of a request, of NeMo-Run 0.11.1; of run:ai's published API, 2.24; of runapy 1.224."""

_WORKED: dict[str, tuple[str, str, str]] = {}
"""The spelling that a control plane took, by its address: it is tried first from then on."""

_TAKEN: set[tuple[str, str, int]] = set()
"""Credentials that were taken: a control plane's address, the application, and a hash of its secret."""


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
        answer = table(self._fetch())
        given = text(answer.get("accessToken"))
        if not given or not given.isascii() or not given.isprintable():
            raise Unreachable("run:ai answers the request for a token without a good one", remedy="look at base_url")
        life = _life(answer, given, self._clock())
        self._value, self._until = given, self._clock() + life - min(_MARGIN, life / 10)


def fetch_token(web: Web, client_id: str, client_secret: str) -> Any:
    """Asks for a token, in the spelling that this control plane takes. No word of an answer is ever shown.

    Raises:
        UserError: the credentials are not taken. Unreachable: no answer, or one that makes no sense.
    """
    application = (web.base, client_id, hash(client_secret))
    ask = partial(_in_any_spelling, web, client_id, client_secret)
    taken = application in _TAKEN
    try:
        # One refusal of credentials that were taken may be a stray one; they are those that were given, still.
        answer = with_fresh_credentials(ask, lambda: None) if taken else ask()
    except Refused as error:
        raise _explained(error, web, taken=taken) from None
    _TAKEN.add(application)
    return answer


def _in_any_spelling(web: Web, client_id: str, client_secret: str) -> Any:
    spellings = sorted(_SPELLINGS, key=lambda each: each != _WORKED.get(web.base))
    for spelling in spellings:
        grant, id, secret = spelling
        try:
            answer = _asked(web, {"grantType": grant, id: client_id, secret: client_secret})
        except Refused as error:
            if error.status != 400 or spelling is spellings[-1]:
                raise
        else:
            _WORKED[web.base] = spelling
            return answer
    raise AssertionError("the last one is taken, or refused")


def _asked(web: Web, body: dict[str, str]) -> Any:
    reply = web.reply("POST", "/token", body=body, repeatable=True, secret=True)
    try:
        return reply.json()
    except UserError as error:  # said by something before run:ai, a gateway or a proxy; or cut off
        raise Unreachable(error.what, where=error.where, remedy="see base_url, or try again later") from None


def _explained(error: Refused, web: Web, *, taken: bool) -> UserError:
    """What a refusal says of the credentials. `taken`: they were accepted before, so that there is such an API."""
    if error.status not in _OF_CREDENTIALS and (taken or error.status != 404):
        remedy = error.remedy or "see base_url, and proxies on the way, or try again later"
        return Malformed(error.what, where=error.where, remedy=remedy)
    if error.status == 404:
        return UserError("there is no run:ai API at base_url", where=web.base, remedy="it ends in /api/v1, mostly")
    what = f"run:ai does not accept the application's credentials (HTTP {error.status})"
    return UserError(what, where=web.base, remedy=_REMEDY, code=Code.CREDENTIALS)


def _life(answer: dict[str, Any], token: str, now: float) -> float:
    """Seconds the token holds: as the answer says, else as the token itself does, else until it is refused.

    A token's own times are of the platform's clock, so that only how far they lie apart counts where it says both.
    """
    said = number(answer.get("expiresIn")) or number(answer.get("expires_in"))
    if said is not None and said > 0:
        return said
    claims = _claims(token)
    end, issued = number(claims.get("exp")), number(claims.get("iat"))
    return float("inf") if end is None else max(0.0, end - (now if issued is None else issued))


def _claims(token: str) -> dict[str, Any]:
    """The middle part of a JSON Web Token (RFC 7519); nothing is verified, as nothing is decided by it."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        return table(parsed(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))))
    except ValueError:
        return {}
