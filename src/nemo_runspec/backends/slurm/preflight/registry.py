"""A container image as Pyxis and enroot name it, and whether its registry has it.

`[USER@][REGISTRY#]IMAGE[:TAG]` is enroot's (`srun --help` with Pyxis shows it); a first part that looks like a host is
taken for a registry too. Registries are asked as the OCI distribution specification says, without credentials.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

ACCEPT = ", ".join((
    "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
))  # fmt: skip
_HUB = "registry-1.docker.io"
_NAME = re.compile(
    r"(?:docker://)?(?:[^@#/]+@)?(?:(?P<registry>[^#]+)#)?(?P<name>[^:@]+(?::\d+/[^:@]+)?)(?::(?P<tag>[^@]+))?"
)
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


def image_of(given: str) -> Image:
    """What a profile's `container_image` names."""
    if given.startswith(("/", "./", "~/")) or given.endswith(".sqsh") or (given[:1] == "$" and "#" not in given):
        return Image(given, path=given)
    text, _, digest = given.partition("@sha256:")
    found = _NAME.fullmatch(text)
    if found is None or "://" in text.removeprefix("docker://"):
        return Image(given)
    registry, name = found["registry"] or "", found["name"]
    tag = f"sha256:{digest}" if digest else found["tag"] or "latest"
    first, slash, rest = name.partition("/")
    if not registry and slash and ("." in first or ":" in first or first == "localhost"):
        registry, name = first, rest
    if registry in ("", "docker.io"):
        registry, name = _HUB, name if "/" in name else f"library/{name}"
    url = f"{_scheme(registry)}://{registry}/v2/{name}/manifests/{tag}"
    return Image(given, "", registry, url, f"repository:{name}:pull")


def ask_from_here(image: Image) -> str:
    """The status of the registry's answer, such as `200`; what went wrong where there was none."""
    try:
        status, challenge = _head(image.url, {})
        if status == "401" and challenge:
            token = _token(challenge, image.scope)
            status = _head(image.url, {"Authorization": f"Bearer {token}"})[0] if token else status
    except (URLError, OSError, HTTPException, ValueError) as error:
        return str(getattr(error, "reason", error))
    return status


def _scheme(registry: str) -> str:
    """As Docker has it: a registry of this machine speaks plain HTTP."""
    host = urlsplit(f"//{registry}").hostname or ""
    return "http" if host == "localhost" or host.startswith("127.") else "https"


def _head(url: str, headers: Mapping[str, str]) -> tuple[str, str]:
    request = Request(url, method="HEAD", headers={"Accept": ACCEPT, **headers})
    try:
        with urlopen(request, timeout=_SECONDS) as answer:
            return str(answer.status), ""
    except HTTPError as error:
        return str(error.code), error.headers.get("WWW-Authenticate") or ""


def _token(challenge: str, scope: str) -> str:
    """An anonymous token, as `WWW-Authenticate: Bearer realm="…",service="…"` says to get it; '' for none."""
    words = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if not challenge.lower().startswith("bearer ") or not words.get("realm", "").startswith(("https://", "http://")):
        return ""
    joint = "&" if "?" in words["realm"] else "?"
    query = urlencode({"service": words.get("service", ""), "scope": scope})
    try:
        with urlopen(f"{words['realm']}{joint}{query}", timeout=_SECONDS) as answer:
            told = json.load(answer)
    except HTTPError:
        return ""
    return str(told.get("token") or told.get("access_token") or "")
