"""The server: GetObject, HeadObject, PutObject, DeleteObject, ListObjectsV2, HeadBucket and multipart upload.

What it takes and answers follows the "Amazon S3 API Reference", page by operation; what that does not name is a stray.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote_plus, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from labs.s3.auth import Account, refused, verify
from labs.s3.store import Store, Stored
from labs.web import Answer, Call, HttpError, Request, WebLab, route

_CODES = {
    301: "PermanentRedirect",
    400: "InvalidRequest",
    403: "AccessDenied",
    404: "NoSuchKey",
    405: "MethodNotAllowed",
    412: "PreconditionFailed",
    500: "InternalError",
    503: "SlowDown",
}
_LEAST_PART = 5 * 1024 * 1024
_META = "x-amz-meta-"
_KNOWN = {
    "GET": {"list-type", "prefix", "max-keys", "continuation-token", "encoding-type", "start-after"},
    "PUT": {"partNumber", "uploadId"},
    "POST": {"uploads", "uploadId"},
    "DELETE": {"uploadId"},
    "HEAD": set(),
}


@dataclass
class Upload:
    """A multipart upload that is under way. `parts`: by number, content and tag."""

    bucket: str
    key: str
    metadata: dict[str, str]
    parts: dict[int, tuple[bytes, str]] = field(default_factory=dict)


class S3Lab(WebLab):
    """One account with one pair of keys; a bucket `bucket` is there from the start.

    Attributes:
        ahead: by how much the server's clock is ahead; later than a presigned URL holds, it has expired.
        page: how many keys a page of a listing has at most.
        late_errors: how many completions of an upload are answered with 200 and an error, and not done.
        uploads: multipart uploads that are under way.
    """

    def __init__(self, root: Path, port: int = 0, host: str = "127.0.0.1") -> None:
        self.root = root
        self._writing = threading.Lock()
        self.store = Store(root)
        self.access_key = "LABACCESSKEY" + secrets.token_hex(4).upper()
        self.secret_key = secrets.token_urlsafe(30)
        self.region = "eu-lab-1"
        super().__init__(port, host)
        self._as_new()

    @property
    def endpoint(self) -> str:
        """The service's URL."""
        return self.origin

    def environment(self) -> dict[str, str]:
        """What a job, or the client, is told about this service."""
        return {
            "ACCESS_KEY": self.access_key,
            "SECRET_KEY": self.secret_key,
            "S3_ENDPOINT_URL": self.endpoint,
            "CLOUD_REGION": self.region,
        }

    def bucket(self, name: str) -> Path:
        """Makes a bucket; its folder."""
        (self.root / name).mkdir(exist_ok=True)
        return self.root / name

    def put(self, url: str, content: bytes, modified: float | None = None) -> Stored:
        """Makes an object at once. `modified`: seconds since 1970, by default now."""
        import os

        bucket, key = _split(url)
        made = self.store.put(bucket, key, content)
        if modified is not None:
            os.utime(made.path, (modified, modified))
        found = self.store.find(bucket, key)
        assert found is not None
        return found

    def get(self, url: str) -> bytes:
        """What an object has. Raises FileNotFoundError."""
        return self.store.path(*_split(url)).read_bytes()

    def urls(self, prefix: str = "s3://bucket/") -> list[str]:
        """All objects whose URLs begin so."""
        bucket = _split(prefix)[0]
        return [url for key in self.store.keys(bucket) if (url := f"s3://{bucket}/{key}").startswith(prefix)]

    def reset(self) -> None:
        import shutil

        with self.quiet():
            super().reset()
            for each in self.root.iterdir():
                shutil.rmtree(each, ignore_errors=True) if each.is_dir() else each.unlink(missing_ok=True)
            self._as_new()

    def time(self) -> float:
        """By its own clock, which `Date` tells."""
        return super().time() + self.ahead.total_seconds()

    def admit(self, request: Request) -> None:
        now = datetime.now(timezone.utc) + self.ahead
        account = Account(self.access_key, self.secret_key, self.region, now)
        verify(account, request.method, _origin_form(request), request.headers, request.body)

    def refusal(self, error: HttpError) -> Answer:
        code = error.extra.get("code") or _CODES.get(error.status, "Error")
        said = f"<Code>{code}</Code><Message>{escape(error.message)}</Message>"
        body = f"<Error>{said}<AWSAccessKeyId>{self.access_key}</AWSAccessKeyId></Error>"
        return Answer(error.status, body.encode(), {"Content-Type": "application/xml", **error.headers})

    @route("GET", "/{bucket}/{key:path}")
    def read(self, request: Request) -> Answer:
        bucket, key = self._place(request)
        if not key:
            return self._listing(request, bucket)
        found, content = self.store.read(bucket, key) or (None, b"")
        return _part_of(_wanted(request, found), content, request.headers.get("Range", ""))

    @route("HEAD", "/{bucket}/{key:path}")
    def head(self, request: Request) -> Answer:
        bucket, key = self._place(request)
        if not key:
            return Answer(200)
        found = _wanted(request, self.store.find(bucket, key))
        return Answer(200, None, {**_headers(found), "Content-Length": str(found.size)})

    @route("PUT", "/{bucket}/{key:path}")
    def write(self, request: Request) -> Answer:
        bucket, key = self._place(request)
        if "Content-Length" not in request.headers:
            raise refused(411, "MissingContentLength")
        if "uploadId" in request.params:
            upload, number = self._upload(request, bucket, key), int(request.params.get("partNumber", 0))
            if not 1 <= number <= 10_000:
                raise refused(400, "InvalidArgument", "partNumber")
            tag = hashlib.md5(request.body).hexdigest()
            upload.parts[number] = (request.body, tag)
            return Answer(200, None, {"ETag": f'"{tag}"'})
        with self._writing:  # a condition holds for what is there as it is written
            if request.headers.get("If-None-Match") == "*" and self.store.find(bucket, key) is not None:
                raise refused(412, "PreconditionFailed")
            made = self.store.put(bucket, key, request.body, _metadata(request))
        return Answer(200, None, {"ETag": f'"{made.etag}"'})

    @route("POST", "/{bucket}/{key:path}")
    def upload(self, request: Request) -> Answer:
        bucket, key = self._place(request)
        if "uploads" in request.params:
            made = secrets.token_hex(16)
            self.uploads[made] = Upload(bucket, key, _metadata(request))
            place = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><UploadId>{made}</UploadId>"
            return _xml("InitiateMultipartUploadResult", place)
        return self._complete(request, self._upload(request, bucket, key))

    @route("DELETE", "/{bucket}/{key:path}")
    def delete(self, request: Request) -> Answer:
        bucket, key = self._place(request)
        if "uploadId" in request.params:
            self._upload(request, bucket, key)
            self.uploads.pop(request.params["uploadId"], None)
        else:
            self.store.remove(bucket, key)
        return Answer(204)

    def _complete(self, request: Request, upload: Upload) -> Answer:
        if self.late_errors:
            self.late_errors -= 1
            return Answer(200, self.refusal(HttpError(500, "We encountered an internal error.")).body)
        wanted = _parts(request.body)
        if [number for number, _ in wanted] != sorted({number for number, _ in wanted}):
            raise refused(400, "InvalidPartOrder")
        if any(number not in upload.parts or upload.parts[number][1] != tag for number, tag in wanted) or not wanted:
            raise refused(400, "InvalidPart")
        bodies = [upload.parts[number][0] for number, _ in wanted]
        if any(len(body) < _LEAST_PART for body in bodies[:-1]):
            raise refused(400, "EntityTooSmall")
        digests = b"".join(bytes.fromhex(tag) for _, tag in wanted)
        etag = f"{hashlib.md5(digests).hexdigest()}-{len(wanted)}"
        made = self.store.put(upload.bucket, upload.key, b"".join(bodies), upload.metadata, etag)
        # Not `del`: the same may be asked once more while the first is being done.
        self.uploads.pop(request.params["uploadId"], None)
        return _xml("CompleteMultipartUploadResult", f"<Key>{escape(made.key)}</Key><ETag>&quot;{etag}&quot;</ETag>")

    def _listing(self, request: Request, bucket: str) -> Answer:
        params = request.params
        if params.get("list-type") != "2" or params.get("encoding-type", "url") != "url":
            raise refused(501, "NotImplemented")
        token = params.get("continuation-token", "")
        after = base64.urlsafe_b64decode(token).decode() if token else params.get("start-after", "")
        most = min(int(params.get("max-keys", 1000)), self.page, 1000)
        keys = [
            key for key in self.store.keys(bucket) if key.startswith(params.get("prefix", "")) and _after(key, after)
        ]
        found = [each for key in keys[:most] if (each := self.store.find(bucket, key))]
        urls = "encoding-type" in params
        more = len(keys) > most
        body = f"<Name>{bucket}</Name><KeyCount>{len(found)}</KeyCount><MaxKeys>{most}</MaxKeys>"
        body += f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>"
        body += "<EncodingType>url</EncodingType>" if urls else ""
        if more:
            next_token = base64.urlsafe_b64encode(keys[most - 1].encode()).decode()
            body += f"<NextContinuationToken>{next_token}</NextContinuationToken>"
        return _xml("ListBucketResult", body + "".join(_entry(each, urls) for each in found))

    def _place(self, request: Request) -> tuple[str, str]:
        """Bucket and key. Raises for what is not documented, and for a bucket that is not there."""
        extra = set(request.params) - _KNOWN[request.method]
        if {name for name in extra if not name.startswith("X-Amz-")}:
            self.strays.append(Call(request.method, request.path, request.params, None, {}, 0.0, 501, request.target))
            raise refused(501, "NotImplemented")
        bucket, _, key = unquote(_origin_form(request).partition("?")[0])[1:].partition("/")
        if bucket not in self.store.buckets():
            raise refused(404, "NoSuchBucket")
        if len(key.encode()) > 1024:
            raise refused(400, "KeyTooLongError")
        return bucket, key

    def _upload(self, request: Request, bucket: str, key: str) -> Upload:
        found = self.uploads.get(request.params.get("uploadId", ""))
        if found is None or (found.bucket, found.key) != (bucket, key):
            raise refused(404, "NoSuchUpload")
        return found

    def _as_new(self) -> None:
        self.ahead = timedelta(0)
        self.page = 1000
        self.late_errors = 0
        self.uploads: dict[str, Upload] = {}
        (self.root / "bucket").mkdir(exist_ok=True)


def _origin_form(request: Request) -> str:
    """The target without a host, which a proxy is sent too (RFC 9112 §3.2.2)."""
    return re.sub(r"^http://[^/]*", "", request.target)


def _wanted(request: Request, found: Stored | None) -> Stored:
    if found is None:
        raise refused(404, "NoSuchKey")
    wanted = request.headers.get("If-Match")
    if wanted and wanted.strip('"') not in (found.etag, "*"):
        raise refused(412, "PreconditionFailed")
    return found


def _part_of(found: Stored, content: bytes, wanted: str) -> Answer:
    """The object, or the range of it that is asked for (RFC 9110 §14)."""
    headers = _headers(found)
    if not wanted:
        return Answer(200, content, headers)
    hit = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted)
    if not hit:
        raise refused(400, "InvalidArgument", "Range")
    start, end = int(hit[1]), min(int(hit[2] or found.size), found.size - 1)
    if start >= found.size:
        raise refused(416, "InvalidRange")
    headers["Content-Range"] = f"bytes {start}-{end}/{found.size}"
    return Answer(206, content[start : end + 1], headers)


def _headers(found: Stored) -> dict[str, str]:
    return {
        "ETag": f'"{found.etag}"',
        "Last-Modified": formatdate(found.modified, usegmt=True),
        "Accept-Ranges": "bytes",
        **{_META + name: value for name, value in found.metadata.items()},
    }


def _metadata(request: Request) -> dict[str, str]:
    names = ((name.lower(), value) for name, value in request.headers.items())
    return {name[len(_META) :]: value for name, value in names if name.startswith(_META)}


def _entry(found: Stored, urls: bool) -> str:
    key = quote_plus(found.key, safe="/*") if urls else escape(found.key)
    modified = datetime.fromtimestamp(found.modified, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return (
        f"<Contents><Key>{key}</Key><LastModified>{modified}</LastModified><ETag>&quot;{found.etag}&quot;</ETag>"
        f"<Size>{found.size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )


def _after(key: str, after: str) -> bool:
    return not after or key.encode() > after.encode()


def _parts(body: bytes) -> list[tuple[int, str]]:
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        raise refused(400, "MalformedXML") from None
    parts: Iterable[ElementTree.Element] = root.iter()
    found = [part for part in parts if part.tag.rpartition("}")[2] == "Part"]
    named = [{each.tag.rpartition("}")[2]: each.text or "" for each in part} for part in found]
    return [(int(part["PartNumber"]), part["ETag"].strip('"')) for part in named]


def _xml(name: str, body: str) -> Answer:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{body}</{name}>'
    return Answer(200, text.encode(), {"Content-Type": "application/xml"})


def _split(url: str) -> tuple[str, str]:
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key
