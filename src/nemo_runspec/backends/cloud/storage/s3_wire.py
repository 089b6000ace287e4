"""Signed requests to an S3 service, by the standard library of Python 3.6 and newer: it also travels with jobs.

Virtual-host and path style are those of Amazon's "Amazon S3 API Reference". A service other than Amazon's is addressed
in path style, which all of them know.
"""

import hashlib
import http.client
import os
import random
import re
import ssl
import threading
import time
from base64 import b64encode
from contextlib import contextmanager, suppress
from email.utils import mktime_tz, parsedate_tz
from types import MappingProxyType
from typing import (  # noqa: UP035  (Python 3.6)
    BinaryIO,
    Callable,
    Iterator,
    Mapping,
    NamedTuple,
    Sequence,
    TypeVar,
)
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from nemo_runspec.backends.cloud.storage.s3_signing import Keys, Request, authorised, encoded, quoted, stamp_of
from nemo_runspec.s3_names import REGION

T = TypeVar("T")

_BLOCK = 1024 * 1024
_SKEW = 60.0
"""Seconds by which the service's clock may differ from the one we sign by, before ours is set by it."""
_FIRST, _LONGEST = 0.3, 20.0
"""Seconds between two tries."""

_PASSING = frozenset({429, 500, 502, 503, 504})
_PASSING_CODES = frozenset({"RequestTimeout", "SlowDown", "InternalError", "ServiceUnavailable", "OperationAborted"})

_REGION = "check the region (s3_region, CLOUD_REGION)"
_CHECKS = {
    "InvalidAccessKeyId": "the service does not know ACCESS_KEY: check it and the endpoint",
    "SignatureDoesNotMatch": "check SECRET_KEY, which does not fit ACCESS_KEY, and the region",
    "AuthorizationHeaderMalformed": _REGION,
    "AuthorizationQueryParametersError": _REGION,
    "PermanentRedirect": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "RequestTimeTooSkewed": "check the clock of this machine",
    "ExpiredToken": "the keys are temporary and have expired",
    "InvalidToken": "check AWS_SESSION_TOKEN, which does not fit the keys",
    "AccessDenied": "check ACCESS_KEY and SECRET_KEY, and what they may do there",
    "NoSuchBucket": "there is no such bucket: check it and the endpoint",
    "NoSuchKey": "there is no such object (all of a folder is meant by a / at its end)",
    301: _REGION,
    307: _REGION,
    400: "check the endpoint and the region",
    401: "check ACCESS_KEY and SECRET_KEY",
    403: "check ACCESS_KEY and SECRET_KEY, what they may do there, and that it is there",
    404: "there is no such object, or no such bucket (all of a folder is meant by a / at its end)",
    412: "it has changed meanwhile",
}
"""What to check, by the service's own word, else by the status. HEAD has no words; and to those who may not list,
Amazon says 403 also of what is not there (HeadObject)."""

_DOES = {"GET": "read", "HEAD": "read", "PUT": "written", "POST": "written", "DELETE": "removed"}


class S3Error(Exception):
    """What an S3 service, or the way to it, did not do: one line with bucket and key, and never a secret.

    Attributes:
        what: without the advice.
        check: what to look at, '' where nothing is known.
        status: of the answer, 0 without one.
        code: the service's own word, such as `NoSuchKey`, '' without one.
        passing: it may pass by itself.
        after: seconds that the service asks to be left alone.
    """

    def __init__(
        self, what: str, check: str = "", *, status: int = 0, code: str = "", passing: bool = False, after: float = 0.0
    ) -> None:
        super().__init__(f"{what}: {check}" if check else what)
        self.what, self.check = what, check
        self.status, self.code, self.passing, self.after = status, code, passing, after


class Call(NamedTuple):
    """A request before it is signed. `query`, `headers`: beside what every one has."""

    method: str
    bucket: str
    key: str
    query: "Sequence[tuple[str, str]]" = ()
    headers: "Mapping[str, str]" = MappingProxyType({})
    body: bytes = b""

    @property
    def url(self) -> str:
        """What it is about, as a person writes it."""
        return f"s3://{self.bucket}/{self.key}"


class Wire:
    """The way to one service. Threads may share it: each has a connection of its own.

    Args:
        endpoint: URL of the service; '' is Amazon's.
        region: '' is `REGION`.
        timeout: seconds without a byte.
        patience: seconds without progress, over all tries.

    Attributes:
        stopped: once set, nothing more is asked or read.
    """

    def __init__(self, keys: Keys, endpoint: str, region: str, timeout: float, patience: float) -> None:
        self.keys = keys
        self.region = region or REGION
        self.endpoint = (endpoint if "://" in endpoint or not endpoint else "https://" + endpoint).rstrip("/")
        self.timeout = timeout
        self.patience = patience
        self.stopped = threading.Event()
        self._local = threading.local()
        self._ahead = 0.0

    def place(self, bucket: str, key: str) -> "tuple[str, str]":
        """Where an object is: scheme and host, and the encoded path."""
        url = urlsplit(self.endpoint or f"https://s3.{self.region}.amazonaws.com")
        path = "/" + quoted(key, "/")
        amazon = re.search(r"(^|\.)amazonaws\.com(\.cn)?$", url.hostname or "")
        # A certificate for *.s3.REGION does not hold for a name with a dot, and a host has no capitals.
        if amazon and re.fullmatch(r"[a-z0-9-]{3,63}", bucket):
            return f"{url.scheme}://{bucket}.{url.netloc}", path
        return f"{url.scheme}://{url.netloc}", f"{url.path}/{bucket}{path}"

    def patiently(self, act: "Callable[[], T]", progress: "Callable[[], int]" = lambda: 0) -> T:
        """Does it, again where that may help, for as long as patience lasts without progress."""
        done, pause, end = progress(), _FIRST, time.monotonic() + self.patience
        while True:
            try:
                return act()
            except S3Error as error:
                if progress() > done:
                    done, pause, end = progress(), _FIRST, time.monotonic() + self.patience
                wait = max(error.after, pause * random.uniform(0.8, 1.2))
                if not error.passing or time.monotonic() + wait > end:
                    raise
            self.stopped.wait(wait)
            pause = min(2 * pause, _LONGEST)

    def open(self, call: Call) -> http.client.HTTPResponse:
        """One request; its answer, whose body is still to be read. Raises `S3Error`."""
        answer = self._signed(call)
        if answer.status == 403 and self._learns_time(answer):
            self.read(answer, call)
            answer = self._signed(call)
        if answer.status >= 300:
            content = self.read(answer, call)
            raise refusal(call.method, call.url, answer.status, content, answer.getheader("Retry-After"))
        return answer

    def _signed(self, call: Call) -> http.client.HTTPResponse:
        base, path = self.place(call.bucket, call.key)
        headers, digest = {**call.headers, "host": base.partition("://")[2]}, hashlib.sha256(call.body).hexdigest()
        request = Request(call.method, path, call.query, headers, digest)
        signed = authorised(self.keys, self.region, stamp_of(self.time()), request)
        self._go_on(call)
        with self._trouble(call, base):
            return self._exchange(base, path + ("?" + encoded(call.query) if call.query else ""), call, signed)

    def time(self) -> float:
        """Seconds since 1970 by the service's clock, as far as it has told that ours is another one."""
        return time.time() + self._ahead

    def _learns_time(self, answer: http.client.HTTPResponse) -> bool:
        """True if a refusal says, by its `Date`, that it may be for the time of the signature: it is mended then."""
        told = parsedate_tz(answer.getheader("Date") or "")
        ahead = mktime_tz(told) - time.time() if told else self._ahead
        changed = abs(ahead - self._ahead) > _SKEW
        self._ahead = ahead if changed else self._ahead
        return changed

    def read(self, answer: http.client.HTTPResponse, call: Call) -> bytes:
        """The rest of an answer."""
        with self._trouble(call, self.endpoint):
            return answer.read()

    def copy(self, answer: http.client.HTTPResponse, file: BinaryIO, call: Call) -> None:
        """Writes the rest of an answer to a file. It may be shorter than it should."""
        while True:
            self._go_on(call)
            with self._trouble(call, self.endpoint):
                block = answer.read(_BLOCK)
            if not block:
                break
            file.write(block)

    def close(self) -> None:
        """Gives this thread's connection back."""
        connection = self._local.__dict__.pop("connection", None)
        if connection is not None:
            connection[1].connection.close()

    def _go_on(self, call: Call) -> None:
        if self.stopped.is_set():
            raise S3Error(f"{call.url}: stopped")

    @contextmanager
    def _trouble(self, call: Call, base: str) -> "Iterator[None]":
        """Turns what connections raise into `S3Error`; the connection is not used again."""
        try:
            yield
        except BaseException as error:
            self.close()
            if isinstance(error, ssl.CertificateError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
                mend = "check the endpoint, and that this machine trusts its authority (SSL_CERT_FILE names a file)"
                raise S3Error(f"{call.url}: the certificate of {base} is not trusted", mend) from None
            if isinstance(error, (OSError, http.client.HTTPException)):
                why = getattr(error, "strerror", None) or str(error) or type(error).__name__
                raise S3Error(f"{call.url}: {why}", f"check the endpoint {base}", passing=True) from None
            raise

    def _exchange(self, base: str, target: str, call: Call, headers: "dict[str, str]") -> http.client.HTTPResponse:
        line = self._connection(base)
        length = {"Content-Length": str(len(call.body))} if call.method in ("PUT", "POST") else {}
        headers = {**length, **headers, **line.headers}
        # A service that refuses a large body may close before it has read it: its answer is worth more than that.
        with suppress(BrokenPipeError, ConnectionResetError):
            line.connection.request(call.method, line.prefix + target, call.body or None, headers)
        return line.connection.getresponse()

    def _connection(self, base: str) -> "_Line":
        known: tuple[str, _Line] | None = self._local.__dict__.get("connection")
        if known is None or known[0] != base:
            self.close()
            known = (base, self._connect(base))
            self._local.connection = known
        return known[1]

    def _connect(self, base: str) -> "_Line":
        url = urlsplit(base)
        proxy = getproxies().get(url.scheme, "")
        if not proxy or proxy_bypass(url.hostname or ""):
            return _Line(self._socket(url.scheme, url.hostname or "", url.port), "", {})
        through = urlsplit(proxy if "://" in proxy else "http://" + proxy)
        login = f"{unquote(through.username or '')}:{unquote(through.password or '')}"
        headers = {"Proxy-Authorization": "Basic " + b64encode(login.encode()).decode()} if through.username else {}
        connection = self._socket(url.scheme, through.hostname or "", through.port)
        if url.scheme == "http":
            return _Line(connection, base, headers)
        connection.set_tunnel(url.hostname or "", url.port, headers)
        return _Line(connection, "", {})

    def _socket(self, scheme: str, host: str, port: "int | None") -> http.client.HTTPConnection:
        if scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self.timeout)
        bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE") or None
        trust = ssl.create_default_context(cafile=bundle)
        return http.client.HTTPSConnection(host, port, timeout=self.timeout, context=trust)


class _Line(NamedTuple):
    """A connection; what a proxy wants before each path, and the headers it wants."""

    connection: http.client.HTTPConnection
    prefix: str
    headers: "dict[str, str]"


def refusal(method: str, where: str, status: int, content: bytes, after: "str | None" = None) -> S3Error:
    """What an answer means that is no success. Of what the service says only its code is kept: the rest names keys."""
    found = re.search(rb"<Code>\s*([A-Za-z.]{1,60})\s*</Code>", content)
    code = found.group(1).decode() if found else ""
    passing = status in _PASSING or code in _PASSING_CODES
    check = _CHECKS.get(code) or _CHECKS.get(status) or ("try again later" if passing else "check the endpoint")
    seconds = float(after) if after and after.isdigit() else 0.0
    what = f"{where} cannot be {_DOES[method]} ({f'{code}, ' if code else ''}HTTP {status})"
    return S3Error(what, check, status=status, code=code, passing=passing, after=seconds)
