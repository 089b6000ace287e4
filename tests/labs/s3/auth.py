"""Signature Version 4 as a server checks it, from "Amazon S3 API Reference", Authenticating Requests.

Header: sig-v4-header-based-auth; query: sigv4-query-string-auth; codes: ErrorResponses. Nothing of the client is used.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from urllib.parse import unquote_to_bytes

from labs.web import HttpError

_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_HEADER = re.compile(r"AWS4-HMAC-SHA256 +Credential=([^,]+), *SignedHeaders=([^,]+), *Signature=([0-9a-f]{64})")
_IN_QUERY = (b"X-Amz-Algorithm", b"X-Amz-Credential", b"X-Amz-Date", b"X-Amz-Expires", b"X-Amz-SignedHeaders")
_SKEW = timedelta(minutes=15)
_WEEK = 604_800
_UNSIGNED = "UNSIGNED-PAYLOAD"

Pairs = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Account:
    """Whose requests are let in, and where. `now`: the server's clock."""

    access_key: str
    secret_key: str
    region: str
    now: datetime


@dataclass(frozen=True)
class _Claim:
    """What a request says of its signature."""

    access_key: str
    scope: list[str]
    names: list[str]
    signature: str
    stamp: str
    payload: str
    query: Pairs


def verify(account: Account, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
    """Lets a request pass. Raises HttpError, with S3's code, for one that Amazon's service would refuse.

    Args:
        target: path and query as they came over the wire.
    """
    path, _, raw = target.partition("?")
    query = [_pair(part) for part in raw.split("&") if part]
    named = {name.lower(): value for name, value in headers.items()}
    claim = _of_query(account, query, named) if _has_signature(query) else _of_header(account, query, named)
    _check_scope(account, claim)
    _check_names(claim, named)
    if sign(
        account.secret_key, claim.scope, claim.stamp, method, path, claim.query, claim.names, named, claim.payload
    ) != (claim.signature):
        raise refused(403, "SignatureDoesNotMatch", f"SignatureDoesNotMatch: {account.access_key}")
    if claim.payload != _UNSIGNED and sha256(body).hexdigest() != claim.payload:
        raise refused(400, "XAmzContentSHA256Mismatch")


def sign(
    secret: str,
    scope: Iterable[str],
    stamp: str,
    method: str,
    path: str,
    query: Pairs,
    names: list[str],
    headers: Mapping[str, str],
    payload: str,
) -> str:
    """The signature that a request should have. Order and encoding are not the client's."""
    lines = [method, encode(unquote_to_bytes(path), b"/")]
    lines.append("&".join(sorted(f"{encode(name)}={encode(value)}" for name, value in query)))
    lines += [f"{name}:{re.sub(' +', ' ', headers[name].strip())}" for name in names]
    lines += ["", ";".join(names), payload]
    request = sha256("\n".join(lines).encode()).hexdigest()
    parts = list(scope)
    key = b"AWS4" + secret.encode()
    for part in parts:
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{'/'.join(parts)}\n{request}"
    return hmac.digest(key, text.encode(), "sha256").hex()


def encode(raw: bytes, keep: bytes = b"") -> str:
    """UriEncode of the documentation: every byte but the unreserved, in capitals."""
    return "".join(chr(byte) if byte in _UNRESERVED + keep else f"%{byte:02X}" for byte in raw)


def refused(status: int, code: str, message: str = "") -> HttpError:
    """A refusal with S3's own word."""
    return HttpError(status, message or code, code=code)


def _pair(part: str) -> tuple[bytes, bytes]:
    name, _, value = part.partition("=")
    return unquote_to_bytes(name), unquote_to_bytes(value)


def _has_signature(query: Pairs) -> bool:
    return any(name == b"X-Amz-Signature" for name, _ in query)


def _of_header(account: Account, query: Pairs, headers: Mapping[str, str]) -> _Claim:
    given = headers.get("authorization", "")
    if not given:
        raise refused(403, "AccessDenied")
    found = _HEADER.fullmatch(given)
    if not found:
        raise refused(400, "AuthorizationHeaderMalformed")
    payload, stamp = headers.get("x-amz-content-sha256", ""), headers.get("x-amz-date", "")
    if not re.fullmatch(r"[0-9a-f]{64}|" + _UNSIGNED, payload):
        raise refused(400, "InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
    if abs(account.now - _time(stamp)) > _SKEW:
        raise refused(403, "RequestTimeTooSkewed")
    access, *scope = found[1].split("/")
    return _Claim(access, scope, found[2].split(";"), found[3], stamp, payload, query)


def _of_query(account: Account, query: Pairs, headers: Mapping[str, str]) -> _Claim:
    said = dict(query)
    missing = [name for name in _IN_QUERY if name not in said]
    if missing or len(said) != len(query) or said[b"X-Amz-Algorithm"] != b"AWS4-HMAC-SHA256":
        raise refused(400, "AuthorizationQueryParametersError")
    if "authorization" in headers:
        raise refused(400, "InvalidArgument", "Only one auth mechanism allowed")
    stamp, seconds = said[b"X-Amz-Date"].decode(), said[b"X-Amz-Expires"]
    if not seconds.isdigit() or not 1 <= int(seconds) <= _WEEK:
        raise refused(400, "AuthorizationQueryParametersError", "X-Amz-Expires must be between 1 and a week")
    made = _time(stamp)
    if account.now > made + timedelta(seconds=int(seconds)) or made > account.now + _SKEW:
        raise refused(403, "AccessDenied", "Request has expired")
    access, *scope = said[b"X-Amz-Credential"].decode().split("/")
    names = said[b"X-Amz-SignedHeaders"].decode().split(";")
    rest = [pair for pair in query if pair[0] != b"X-Amz-Signature"]
    return _Claim(access, scope, names, said[b"X-Amz-Signature"].decode(), stamp, _UNSIGNED, rest)


def _check_scope(account: Account, claim: _Claim) -> None:
    if len(claim.scope) != 4 or claim.scope[2:] != ["s3", "aws4_request"] or claim.scope[0] != claim.stamp[:8]:
        raise refused(400, "AuthorizationHeaderMalformed", "the credential's scope")
    if claim.scope[1] != account.region:
        raise refused(400, "AuthorizationHeaderMalformed", f"the region is wrong; expecting '{account.region}'")
    if claim.access_key != account.access_key:
        raise refused(403, "InvalidAccessKeyId", f"no such key: {claim.access_key}")


def _check_names(claim: _Claim, headers: Mapping[str, str]) -> None:
    """The host, and every header of Amazon's, must be signed; what is signed must be there, in order."""
    wanted = {"host"} | {name for name in headers if name.startswith("x-amz-")}
    if wanted - set(claim.names) or set(claim.names) - set(headers) or claim.names != sorted(claim.names):
        raise refused(403, "AccessDenied", "There were headers present in the request which were not signed")


def _time(stamp: str) -> datetime:
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        raise refused(403, "AccessDenied", "a date must be in ISO8601 basic format") from None
