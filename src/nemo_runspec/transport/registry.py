"""Asks a registry whether it has a container image, and lets one have it, by the OCI distribution specification.

Without credentials first, with them where it wants some; they are sent over TLS only (plain HTTP to this machine) and
never follow a redirect. The token handshake: https://distribution.github.io/distribution/spec/auth/token/.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPMessage
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from nemo_runspec.images import HUB, is_image_file, parse_reference
from nemo_runspec.tracing import asked
from nemo_runspec.transport.loopback import is_in_clear, is_loopback

ACCEPT = ", ".join((
    "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
))  # fmt: skip

NGC, NGC_USER = "nvcr.io", "$oauthtoken"
"""NVIDIA's registry; its user stands for an API key, the password (docs.nvidia.com/ngc, "Accessing NGC")."""

_HUB = "registry-1.docker.io"
_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Image:
    """An image. A file has a `path`; one of a registry a `url` of its manifest and a `scope` to ask a token for.

    Both are empty where the name is not understood.
    """

    text: str
    path: str = ""
    registry: str = ""
    url: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class RegistryLogin:
    """Credentials of a registry. `variable`: where the password was found, for a person."""

    user: str
    password: str = field(repr=False)
    variable: str = ""


@dataclass(frozen=True, slots=True)
class RegistryAnswer:
    """What a registry said.

    Args:
        status: such as `200`; what went wrong where there was no answer.
        login: True where credentials were offered.
        accepted: False where the registry knows them not.
    """

    status: str
    login: bool = False
    accepted: bool = True


def image_of(given: str) -> Image:
    """What a profile's `container_image` names: a file, or a reference of a registry in any spelling."""
    if is_image_file(given):
        return Image(given, path=given)
    found = parse_reference(given)
    if found is None:
        return Image(given)
    registry = _HUB if found.registry == HUB else found.registry
    url = f"{_scheme(registry)}://{registry}/v2/{found.repository}/manifests/{found.version}"
    return Image(given, "", registry, url, f"repository:{found.repository}:pull")


def ask(image: Image, login: RegistryLogin | None = None) -> RegistryAnswer:
    """What the image's registry says of it. At most three requests, each of ten seconds.

    Args:
        login: offered only where the registry wants to know who asks and lets nobody in without.
    """
    try:
        return _ask(image, login)
    except (URLError, OSError, HTTPException, ValueError) as error:
        return RegistryAnswer(str(getattr(error, "reason", error)))


def _ask(image: Image, login: RegistryLogin | None) -> RegistryAnswer:
    status, challenge = _head(image.url, {})
    if status != "401" or not challenge:
        return RegistryAnswer(status)
    words = _Challenge.of(challenge)
    login = login if login and words.safe(image.url) else None
    if words.basic:
        if login is None:
            return RegistryAnswer(status)
        status, _ = _head(image.url, _basic(login), follow=False)
        return RegistryAnswer(status, True, status != "401")
    token, code = words.token(image.scope, login)
    if not token:
        refused = login is not None and code in ("401", "403")
        return RegistryAnswer(code if refused else status, login is not None, not refused)
    status, _ = _head(image.url, {"Authorization": f"Bearer {token}"}, follow=login is None)
    return RegistryAnswer(status, login is not None)


@dataclass(frozen=True, slots=True)
class _Challenge:
    """`WWW-Authenticate`: `Basic`, or `Bearer realm="…",service="…"`."""

    scheme: str
    realm: str
    service: str

    @classmethod
    def of(cls, text: str) -> _Challenge:
        words = dict(re.findall(r'(\w+)="([^"]*)"', text))
        return cls(text.partition(" ")[0].lower(), words.get("realm", ""), words.get("service", ""))

    @property
    def basic(self) -> bool:
        """True if the password itself is wanted."""
        return self.scheme == "basic"

    def safe(self, url: str) -> bool:
        """True if nobody between could read credentials that are sent there."""
        return not is_in_clear(url if self.basic else self.realm)

    def token(self, scope: str, login: RegistryLogin | None) -> tuple[str, str]:
        """A token, an anonymous one without a login, and the status of the answer; '' for no token."""
        if self.scheme != "bearer" or not self.realm.startswith(("https://", "http://")):
            return "", ""
        joint = "&" if "?" in self.realm else "?"
        query = urlencode({"service": self.service, "scope": scope})
        request = Request(f"{self.realm}{joint}{query}", headers=dict(_basic(login)) if login else {})
        try:
            with opener(follow=login is None).open(request, timeout=_SECONDS) as answer:
                told = json.load(answer)
        except HTTPError as error:
            return "", str(error.code)
        told = told if isinstance(told, dict) else {}
        return str(told.get("token") or told.get("access_token") or ""), "200"


class _NoRedirect(HTTPRedirectHandler):
    """urllib would send the password on to wherever an answer points."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        return None


def _head(url: str, headers: Mapping[str, str], *, follow: bool = True) -> tuple[str, str]:
    """Status and challenge."""
    request = Request(url, method="HEAD", headers={"Accept": ACCEPT, **headers})
    with asked("registry", lambda: f"HEAD {url}") as question:
        status, challenge = _answered(opener(follow=follow), request)
        question.answer = f"HTTP {status}"
    return status, challenge


def _answered(asker: OpenerDirector, request: Request) -> tuple[str, str]:
    try:
        with asker.open(request, timeout=_SECONDS) as answer:
            return str(answer.status), ""
    except HTTPError as error:
        return str(error.code), error.headers.get("WWW-Authenticate") or ""


def opener(*, follow: bool) -> OpenerDirector:
    """What asks; without `follow` it goes nowhere that an answer points to, as it carries a secret."""
    return build_opener() if follow else build_opener(_NoRedirect)


def _basic(login: RegistryLogin) -> Mapping[str, str]:
    pair = b64encode(f"{login.user}:{login.password}".encode()).decode("ascii")
    return {"Authorization": f"Basic {pair}"}


def _scheme(registry: str) -> str:
    """As Docker has it: a registry of this machine speaks plain HTTP."""
    return "http" if is_loopback(urlsplit(f"//{registry}").hostname) else "https"
