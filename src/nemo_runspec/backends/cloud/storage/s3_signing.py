"""Signatures of S3 requests: Signature Version 4, by the standard library of Python 3.6 and newer. Travels with jobs.

As Amazon's "Amazon S3 API Reference" has it, Authenticating Requests.
"""

import hashlib
import hmac
import time
from typing import Mapping, NamedTuple, Sequence  # noqa: UP035  (Python 3.6)
from urllib.parse import quote

from nemo_runspec.s3_names import pair_in, token_in

UNSIGNED = "UNSIGNED-PAYLOAD"


class Keys(NamedTuple):
    """What requests are signed with. `token`: of temporary keys, else ''."""

    access: str
    secret: str
    token: str = ""

    def __repr__(self) -> str:
        return "Keys(...)"


class Request(NamedTuple):
    """What a signature is over. `path`: encoded; `headers`: by lower-case names; `digest`: the body's SHA-256."""

    method: str
    path: str
    query: "Sequence[tuple[str, str]]"
    headers: "Mapping[str, str]"
    digest: str


def keys_of(environment: "Mapping[str, str]") -> "Keys | None":
    """The keys in an environment, with their token where they are temporary; None without a pair."""
    pair = [environment[name].strip() for name in pair_in(environment)]
    return Keys(pair[0], pair[1], token_in(environment)) if pair else None


def canonical(request: Request) -> str:
    """The form of a request that is signed."""
    names = sorted(request.headers)
    headers = "".join(f"{name}:{' '.join(request.headers[name].split())}\n" for name in names)
    query = encoded(request.query)
    return "\n".join((request.method, request.path, query, headers, ";".join(names), request.digest))


def signature(keys: Keys, region: str, stamp: str, request: Request) -> str:
    """Signature Version 4 of a request. `stamp`: as in `20130524T000000Z`."""
    digest = hashlib.sha256(canonical(request).encode()).hexdigest()
    text = "\n".join(("AWS4-HMAC-SHA256", stamp, scope(region, stamp), digest))
    key = ("AWS4" + keys.secret).encode()
    for part in scope(region, stamp).split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def scope(region: str, stamp: str) -> str:
    """What a signature is good for: day, region and service."""
    return f"{stamp[:8]}/{region}/s3/aws4_request"


def encoded(query: "Sequence[tuple[str, str]]") -> str:
    """A query in the order and encoding that are signed."""
    return "&".join(f"{name}={value}" for name, value in sorted((quoted(n), quoted(v)) for n, v in query))


def quoted(text: str, safe: str = "") -> str:
    """Percent-encoded, but for letters, digits, `-._~` and what is `safe`."""
    return quote(text, safe=safe + "~", errors="surrogateescape")


def authorised(keys: Keys, region: str, stamp: str, request: Request) -> "dict[str, str]":
    """The headers of a request, with its signature."""
    headers = {**request.headers, "x-amz-content-sha256": request.digest, "x-amz-date": stamp}
    if keys.token:
        headers["x-amz-security-token"] = keys.token
    sign = signature(keys, region, stamp, request._replace(headers=headers))
    names, credential = ";".join(sorted(headers)), f"{keys.access}/{scope(region, stamp)}"
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={credential},SignedHeaders={names},Signature={sign}"
    return headers


def presigned(keys: Keys, region: str, stamp: str, method: str, path: str, host: str, seconds: int) -> str:
    """The path and query of a URL that is good for so many seconds."""
    query = [
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
        ("X-Amz-Credential", f"{keys.access}/{scope(region, stamp)}"),
        ("X-Amz-Date", stamp),
        ("X-Amz-Expires", str(seconds)),
        ("X-Amz-SignedHeaders", "host"),
    ]
    query += [("X-Amz-Security-Token", keys.token)] if keys.token else []
    sign = signature(keys, region, stamp, Request(method, path, query, {"host": host}, UNSIGNED))
    return f"{path}?{encoded(query)}&X-Amz-Signature={sign}"


def stamp_of(now: "float | None" = None) -> str:
    """A time, by default this one, as signatures name it."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
