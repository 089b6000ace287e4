"""A small S3 client of the standard library of Python 3.6 and newer: it also travels with jobs.

The operations are those of Amazon's "Amazon S3 API Reference": GetObject, HeadObject, PutObject, ListObjectsV2
and multipart upload.
"""

import calendar
import os
import time
import uuid
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from email.utils import parsedate
from itertools import chain
from typing import BinaryIO, Callable, Iterator, NamedTuple  # noqa: UP035  (Python 3.6)
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from nemo_runspec.backends.cloud.storage.s3_signing import Keys, keys_of, presigned, stamp_of
from nemo_runspec.backends.cloud.storage.s3_wire import Call, S3Error, Wire, refusal

__all__ = ["S3", "Keys", "Object", "S3Error", "from_environment", "split"]

PART = 16 * 1024 * 1024
"""Bytes of a part of a large upload, at least; a smaller file is sent in one piece."""

MOST_PARTS = 10000
_HELD = 16 * PART
"""Bytes of an upload that are in memory at the same time, at most, but for one part."""

_META = "x-amz-meta-"
_MARK = "nemotron-upload"
"""Metadata by which a large upload knows its own object again."""


class Object(NamedTuple):
    """An object as it is now. `etag`: without quotes; `modified`: seconds since 1970; `metadata`: not in a listing."""

    key: str
    size: int
    etag: str
    modified: int
    metadata: "dict[str, str]"


def split(url: str) -> "tuple[str, str]":
    """Bucket and key of `s3://bucket/key`. Raises `S3Error` for any other text."""
    bucket, _, key = url[len("s3://") :].partition("/")
    if not url.startswith("s3://") or not bucket:
        raise S3Error(f"{url!r} is no S3 path", "write s3://bucket/path")
    return bucket, key


def from_environment(
    endpoint: str = "", region: str = "", *, timeout: float = 60.0, patience: float = 120.0
) -> "S3 | None":
    """A client with the keys that the environment has, None without keys; the rest is as for `S3`."""
    keys = keys_of(os.environ)
    return S3(keys, endpoint, region, timeout=timeout, patience=patience) if keys else None


class S3:
    """One service. Threads may share it.

    Args:
        endpoint: URL of the service; '' is Amazon's.
        region: '' is `s3_names.REGION`.
        timeout: seconds without a byte.
        patience: seconds without progress, over all tries.
    """

    def __init__(
        self, keys: Keys, endpoint: str = "", region: str = "", *, timeout: float = 60.0, patience: float = 120.0
    ) -> None:
        self._wire = Wire(keys, endpoint, region, timeout, patience)

    def head(self, bucket: str, key: str) -> Object:
        """What an object is. Raises `S3Error`, of status 404 where there is none."""
        headers, _ = self._whole(Call("HEAD", bucket, key))
        modified = parsedate(headers.get("last-modified", ""))
        return Object(
            key,
            int(headers.get("content-length", 0)),
            headers.get("etag", "").strip('"'),
            calendar.timegm(modified) if modified else 0,
            {name[len(_META) :]: value for name, value in headers.items() if name.startswith(_META)},
        )

    def download(self, bucket: str, found: Object, file: BinaryIO) -> None:
        """Writes an object to an open, empty file; goes on where a connection broke.

        Raises:
            S3Error: of status 412 where the object is no longer the one that was `found`.
        """

        def more() -> None:
            headers = {"if-match": f'"{found.etag}"'} if found.etag else {}
            if file.tell():
                headers["range"] = f"bytes={file.tell()}-"
            call = Call("GET", bucket, found.key, headers=headers)
            answer = self._wire.open(call)
            if answer.status != 206:  # from the beginning, or the service knows no ranges
                file.seek(0)
                file.truncate()
            self._wire.copy(answer, file, call)
            if file.tell() < found.size:
                self._wire.close()
                raise S3Error(f"{call.url}: the download broke off", passing=True)

        self._wire.patiently(more, file.tell)
        if file.tell() != found.size:
            raise S3Error(f"s3://{bucket}/{found.key}: it has changed meanwhile", status=412)

    def put(self, bucket: str, key: str, body: bytes, metadata: "dict[str, str] | None" = None) -> None:
        """Makes an object of these bytes, whole or not at all."""
        self._whole(Call("PUT", bucket, key, headers=_metadata(metadata), body=body))

    def put_new(self, bucket: str, key: str, body: bytes) -> bool:
        """As `put`, where there is no such object yet; False where there is one (If-None-Match, "Conditional writes").

        An answer that was lost may have been a success: then what is there are these bytes.
        """
        try:
            self._whole(Call("PUT", bucket, key, headers={"if-none-match": "*"}, body=body))
        except S3Error as error:
            if error.status not in (409, 412):
                raise
            return self.get(bucket, key) == body
        return True

    def get(self, bucket: str, key: str) -> bytes:
        """An object's content. Raises `S3Error`, of status 404 where there is none."""
        return self._whole(Call("GET", bucket, key))[1]

    def delete(self, bucket: str, key: str) -> None:
        """Removes an object, if it is there."""
        self._whole(Call("DELETE", bucket, key))

    def upload(
        self,
        bucket: str,
        key: str,
        file: BinaryIO,
        metadata: "dict[str, str] | None" = None,
        *,
        at_once: int = 1,
        sent: "Callable[[int], object]" = lambda size: None,
    ) -> int:
        """Makes an object of an open file, whole or not at all, in parts where it is large; its size in bytes.

        Args:
            at_once: parts that are sent at the same time, and held in memory meanwhile.
            sent: called with the bytes of each part that is there.
        """
        part = part_size(os.fstat(file.fileno()).st_size)
        first = file.read(part)
        if len(first) < part:
            self.put(bucket, key, first, metadata)
            sent(len(first))
            return len(first)
        mark = uuid.uuid4().hex
        upload = self._begin(bucket, key, {**(metadata or {}), _MARK: mark})
        try:
            bodies = chain([first], iter(lambda: file.read(part), b""))
            tags = self._parts(bucket, key, upload, bodies, max(1, min(at_once, _HELD // part)), sent)
            self._complete(bucket, key, upload, tags, mark)
        except BaseException:
            self._abort(bucket, key, upload)
            raise
        return file.tell()

    def listing(self, bucket: str, prefix: str, *, most: int = 0) -> "Iterator[Object]":
        """The objects whose keys begin with the prefix, in their order. `most`: how many, 0 is all."""
        token = ""
        while True:
            query = [("list-type", "2"), ("prefix", prefix), ("encoding-type", "url")]
            query += [("continuation-token", token)] if token else []
            query += [("max-keys", str(most))] if most else []
            page = _parsed(self._whole(Call("GET", bucket, "", query))[1], f"s3://{bucket}/{prefix}")
            urls = page.findtext("EncodingType") == "url"
            yield from (_listed(each, urls) for each in page.findall("Contents"))
            token = page.findtext("NextContinuationToken") or ""
            if page.findtext("IsTruncated") != "true" or not token or most:
                return

    def presign(self, method: str, bucket: str, key: str, seconds: int, *, now: "float | None" = None) -> str:
        """A URL by which anybody may do this one thing for so many seconds (at most a week)."""
        base, path = self._wire.place(bucket, key)
        host = base.partition("://")[2]
        stamp = stamp_of(self._wire.time() if now is None else now)
        return base + presigned(self._wire.keys, self._wire.region, stamp, method, path, host, seconds)

    def stop(self) -> None:
        """Ends what other threads ask for, and all that comes after; they raise `S3Error`."""
        self._wire.stopped.set()

    def probe(self, bucket: str, key: str) -> None:
        """Finds out whether an object may be made; none is: an upload is begun and given up."""
        self._abort(bucket, key, self._begin(bucket, key, {}))

    def _begin(self, bucket: str, key: str, metadata: "dict[str, str]") -> str:
        call = Call("POST", bucket, key, [("uploads", "")], _metadata(metadata))
        return _parsed(self._whole(call)[1], call.url).findtext("UploadId") or ""

    def _parts(
        self,
        bucket: str,
        key: str,
        upload: str,
        bodies: "Iterator[bytes]",
        at_once: int,
        sent: "Callable[[int], object]",
    ) -> "list[str]":
        """Sends the parts, reading no further ahead than is sent; their tags."""
        tags: list[str] = []
        waiting: deque[tuple[int, Future[str]]] = deque()

        def take() -> None:
            size, part = waiting.popleft()
            tags.append(part.result())
            sent(size)

        with ThreadPoolExecutor(at_once) as pool:
            for number, body in enumerate(bodies, 1):
                if len(waiting) == at_once:
                    take()
                waiting.append((len(body), pool.submit(self._part, bucket, key, upload, number, body)))
            while waiting:
                take()
        return tags

    def _part(self, bucket: str, key: str, upload: str, number: int, body: bytes) -> str:
        query = [("partNumber", str(number)), ("uploadId", upload)]
        return self._whole(Call("PUT", bucket, key, query, body=body))[0].get("etag", "")

    def _complete(self, bucket: str, key: str, upload: str, tags: "list[str]", mark: str) -> None:
        """Makes one object of the parts. That may be answered 200 and an error, or be done without an answer."""
        parts = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>" for n, tag in enumerate(tags, 1))
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        call = Call("POST", bucket, key, [("uploadId", upload)], body=body)

        def finish() -> None:
            content = self._wire.read(self._wire.open(call), call)
            if b"<Error" in content:
                raise refusal("POST", call.url, 500, content)

        try:
            self._wire.patiently(finish)
        except S3Error as error:
            if error.code != "NoSuchUpload" or self.head(bucket, key).metadata.get(_MARK) != mark:
                raise

    def _abort(self, bucket: str, key: str, upload: str) -> None:
        """Gives the parts back; what led here is the error to be told."""
        call = Call("DELETE", bucket, key, [("uploadId", upload)])
        with suppress(S3Error):
            self._wire.read(self._wire.open(call), call)

    def _whole(self, call: Call) -> "tuple[dict[str, str], bytes]":
        """A request, again where that may help: its answer's headers by lower-case names, and its body."""

        def once() -> "tuple[dict[str, str], bytes]":
            answer = self._wire.open(call)
            content = self._wire.read(answer, call)
            return {name.lower(): value for name, value in answer.getheaders()}, content

        return self._wire.patiently(once)


def part_size(size: int) -> int:
    """Bytes of each part of an upload of so many bytes; there may be ten thousand parts, and it may still grow."""
    least = -(-size // (MOST_PARTS - 100))
    return max(PART, -(-least // PART) * PART)


def _metadata(values: "dict[str, str] | None") -> "dict[str, str]":
    return {_META + name: value for name, value in (values or {}).items()}


def _parsed(body: bytes, where: str) -> ElementTree.Element:
    """An answer's XML without its namespace."""
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        raise S3Error(f"{where}: the answer is no XML", "check the endpoint") from None
    for each in root.iter():
        each.tag = each.tag.rpartition("}")[2]
    return root


def _listed(entry: ElementTree.Element, urls: bool) -> Object:
    key = entry.findtext("Key") or ""
    modified = time.strptime((entry.findtext("LastModified") or "1970-01-01T00:00:00")[:19], "%Y-%m-%dT%H:%M:%S")
    return Object(
        unquote_plus(key) if urls else key,
        int(entry.findtext("Size") or 0),
        (entry.findtext("ETag") or "").strip('"'),
        calendar.timegm(modified),
        {},
    )
