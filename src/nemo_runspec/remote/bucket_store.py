"""A store of artifacts in a bucket, as this machine reads and changes it, with its own keys."""

from __future__ import annotations

import getpass
import os
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nemo_runspec.artifacts.changes import RefusedChange, check_word
from nemo_runspec.artifacts.content import measured
from nemo_runspec.artifacts.registry import StoreListing
from nemo_runspec.artifacts.store_changes import WritableStorage
from nemo_runspec.backends.cloud.storage.bucket import from_environment
from nemo_runspec.backends.cloud.storage.pulled import S3Files
from nemo_runspec.backends.cloud.storage.s3 import S3Error
from nemo_runspec.backends.cloud.storage.s3 import from_environment as s3_from_environment
from nemo_runspec.backends.cloud.storage.versions import BucketVersions
from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Unreachable


class BucketStorage(WritableStorage):
    """A store in a bucket. As `WritableStorage`.

    Args:
        root: its URL.
        endpoint, region: as in `[artifacts]`.

    Raises:
        UserError: there are no keys for it here.
    """

    def __init__(self, root: str, endpoint: str = "", region: str = "") -> None:
        endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        region = region or os.environ.get("AWS_REGION", "")
        s3, bucket = s3_from_environment(endpoint, region, patience=30.0), from_environment(endpoint, region)
        if s3 is None or bucket is None:
            raise UserError(f"there are no keys for {root} here", remedy="export ACCESS_KEY=… SECRET_KEY=…")
        self.root = self.name = root.rstrip("/")
        self.files = S3Files(bucket)
        self._versions = BucketVersions(s3, self.root)

    def look(self, names: Sequence[str] = ()) -> StoreListing:
        """As `ArtifactStorage.look`: one list, and each manifest."""
        with self._errors():
            return StoreListing(*self._versions.look(names))

    def config(self, artifact: str, digest: str) -> str:
        """As `ArtifactStorage.config`."""
        try:
            return self._versions.config(artifact, digest).decode("utf-8", "surrogateescape")
        except S3Error:
            return ""

    def has(self, path: str) -> bool | None:
        """As `ArtifactStorage.has`."""
        return None

    def change(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """As `WritableStorage.change`. Data from outside are uploaded."""
        words = dict(asked)
        action = words.pop("action")
        with self._errors():
            try:
                if action == "add":
                    return {"done": self._add(**words)}
                return {"done": (self._versions.tag if action == "tag" else self._versions.remove)(**words)}
            except RefusedChange as refused:
                return {"refused": refused.what, "remedy": refused.remedy}

    def _add(self, name: str, path: str, type: str, note: str) -> int:
        check_word(name, "the name of an artifact")
        data = Path(path)
        if path.startswith("s3://") or not data.exists():
            raise RefusedChange(f"there is nothing at {path}", "name a file or a folder of this machine")
        who = {"user": getpass.getuser(), "host": socket.gethostname()}
        known = {"path": f"{data.name}-{uuid.uuid4().hex[:8]}", "type": type, "producer": who, "inputs": []}
        return self._versions.add(name, path, known | measured(path) | ({"note": note} if note else {}))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except S3Error as error:
            raise (Unreachable if error.passing else UserError)(error.what, remedy=error.check or None) from None
