"""S3 as this machine uses it: code packages put and presigned, and what the keys may read and write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from nemo_runspec.backends.cloud.storage.s3 import S3, Keys, Object, S3Error, split
from nemo_runspec.backends.cloud.storage.s3_signing import keys_of
from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.loopback import require_tls

DIGEST = "sha256"
"""Metadata of what is put here: the SHA-256 of its content, in hexadecimal."""

_WEEK = 7 * 86400
"""The longest that a presigned URL may hold ("Amazon S3 API Reference", X-Amz-Expires)."""


class Bucket:
    """One S3 service with one pair of keys; objects are named by URLs such as `s3://bucket/key`.

    All methods raise `UserError` where the service refuses, with what to check, and `Unreachable` where it does not
    answer, or with nothing but failures, for all of `patience` (seconds).
    """

    def __init__(self, keys: Keys, endpoint: str, region: str, *, patience: float = 60.0) -> None:
        self._endpoint = endpoint
        if keys.token:  # the keys themselves are never sent: requests are signed with them
            self._require_tls("the session's token (AWS_SESSION_TOKEN)")
        self._s3 = S3(keys, endpoint, region, timeout=30.0, patience=patience)

    def presign(self, url: str, seconds: int, method: str = "GET") -> str:
        """A URL by which anybody may do this one thing for so many seconds, at most a week. Asks nobody."""
        self._require_tls("the presigned URL, and use it")
        with _errors_for_users(url) as (bucket, key):
            return self._s3.presign(method, bucket, key, min(seconds, _WEEK))

    def _require_tls(self, sent: str) -> None:
        if "://" in self._endpoint:  # else it is asked over TLS
            require_tls("s3_endpoint", self._endpoint, sent, example="https://s3.example.com")

    def head(self, url: str) -> Object | None:
        """What is there now: size in bytes, etag, metadata; None where nothing is."""
        with _errors_for_users(url) as (bucket, key):
            try:
                return self._s3.head(bucket, key)
            except S3Error as error:
                if error.status != 404:
                    raise
                return None

    def put(
        self,
        url: str,
        path: Path,
        sha256: str,
        sending: Callable[[], object] = lambda: None,
        sent: Callable[[int], object] = lambda size: None,
    ) -> bool:
        """Makes an object of a file, whole or not at all; one of the same size and digest stays as it is.

        Args:
            sha256: of the file, in hexadecimal.
            sending: called before anything is sent.
            sent: called with the bytes of each part that has been.

        Returns:
            Whether it was sent.
        """
        there = self.head(url)
        if there is not None and there.metadata.get(DIGEST) == sha256 and there.size == path.stat().st_size:
            return False
        sending()
        with _errors_for_users(url) as (bucket, key), path.open("rb") as file:
            self._s3.upload(bucket, key, file, {DIGEST: sha256}, at_once=4, sent=sent)
        return True

    def readable(self, url: str) -> str:
        """What the keys can read there, for a person: of one object its size, of `s3://…/` the first object's name.

        Raises:
            UserError: nothing is there, or it may not be read.
        """
        with _errors_for_users(url) as (bucket, key):
            if key and not key.endswith("/"):
                return f"{self._s3.head(bucket, key).size:,} bytes"
            first = next(self._s3.listing(bucket, key, most=1), None)
        if first is None:
            raise UserError(f"{url} has no objects", remedy="check the path: without / at its end it is one object")
        return f"objects, the first is {first.key}"

    def below(self, url: str) -> list[tuple[str, Object]]:
        """The objects below a URL, each by its name there, in their order."""
        return list(self._below(url))

    def first_below(self, url: str) -> list[str]:
        """The names of the first thousand objects below a URL, there. One request."""
        return [name for name, _ in self._below(url, most=1000)]

    def _below(self, url: str, *, most: int = 0) -> Iterator[tuple[str, Object]]:
        with _errors_for_users(url) as (bucket, key):
            top = f"{key.rstrip('/')}/" if key else ""
            for each in self._s3.listing(bucket, top, most=most):
                yield each.key[len(top) :], each

    def download(self, url: str, found: Object, file: BinaryIO) -> None:
        """Writes an object to an open file, from where that ends on."""
        with _errors_for_users(url) as (bucket, _):
            self._s3.download(bucket, found, file)

    def writable(self, url: str) -> None:
        """Finds out whether objects can be made below a URL; none is made.

        Raises:
            UserError: they cannot.
        """
        with _errors_for_users(url) as (bucket, key):
            self._s3.probe(bucket, f"{key.rstrip('/')}/nemotron-probe".lstrip("/"))


def from_environment(endpoint: str, region: str, *, patience: float = 60.0) -> Bucket | None:
    """A service with this machine's keys for it (`s3_names`); None where the environment has none."""
    keys = keys_of(os.environ)
    return None if keys is None else Bucket(keys, endpoint, region, patience=patience)


@contextmanager
def _errors_for_users(url: str) -> Iterator[tuple[str, str]]:
    """Bucket and key of a URL; what goes wrong with them becomes an error for the user."""
    try:
        yield split(url)
    except S3Error as error:
        kind = Unreachable if error.passing else UserError
        raise kind(error.what, remedy=error.check or None) from None
