"""Objects as files: `root/<bucket>/<key>`; what a file cannot say is kept beside them in `root/.meta`."""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

_PLAIN = "/ !\"#$&'()*+,:;<=>?@[]^`{|}~"


@dataclass(frozen=True)
class Stored:
    """An object. `modified`: seconds since 1970."""

    key: str
    path: Path
    size: int
    etag: str
    modified: int
    metadata: dict[str, str]


class Store:
    """The objects below a root; a file that a test puts there is one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()

    def buckets(self) -> set[str]:
        return {each.name for each in self.root.iterdir() if each.is_dir() and not each.name.startswith(".")}

    def path(self, bucket: str, key: str) -> Path:
        """Where an object is; parts that a file cannot be called are escaped, and so is `%`."""
        return self.root.joinpath(bucket, *map(_escaped, key.split("/")))

    def find(self, bucket: str, key: str) -> Stored | None:
        with self._lock:
            path = self.path(bucket, key)
            return self._stored(bucket, key, path) if path.is_file() else None

    def read(self, bucket: str, key: str) -> tuple[Stored, bytes] | None:
        """An object and its content, of one moment."""
        with self._lock:
            path = self.path(bucket, key)
            return (self._stored(bucket, key, path), path.read_bytes()) if path.is_file() else None

    def keys(self, bucket: str) -> list[str]:
        """All keys, in S3's order: that of their bytes."""
        folder = self.root / bucket
        with self._lock:
            files = [each for each in folder.rglob("*") if each.is_file()]
        keys = ["/".join(unquote(part) for part in each.relative_to(folder).parts).replace("\0", "") for each in files]
        return sorted(keys, key=lambda key: key.encode())

    def put(
        self, bucket: str, key: str, content: bytes, metadata: dict[str, str] | None = None, etag: str = ""
    ) -> Stored:
        """Makes an object at once, whole."""
        path = self.path(bucket, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.root / f".put-{uuid.uuid4().hex}"
        scratch.write_bytes(content)
        with self._lock:
            scratch.replace(path)
            stat = path.stat()
            mark = {"metadata": metadata or {}, "etag": etag, "mtime": stat.st_mtime_ns, "size": stat.st_size}
            self._meta(bucket, key).write_text(json.dumps(mark))
            return self._stored(bucket, key, path)

    def remove(self, bucket: str, key: str) -> None:
        with self._lock:
            self.path(bucket, key).unlink(missing_ok=True)

    def _stored(self, bucket: str, key: str, path: Path) -> Stored:
        stat, meta = path.stat(), self._meta(bucket, key)
        known = json.loads(meta.read_text()) if meta.is_file() else {}
        if (known.get("mtime"), known.get("size")) != (stat.st_mtime_ns, stat.st_size):
            known = {"metadata": {}, "etag": "", "mtime": stat.st_mtime_ns, "size": stat.st_size}
        if not known["etag"]:
            known["etag"] = hashlib.md5(path.read_bytes()).hexdigest()
            meta.write_text(json.dumps(known))
        return Stored(key, path, stat.st_size, known["etag"], int(stat.st_mtime), known["metadata"])

    def _meta(self, bucket: str, key: str) -> Path:
        folder = self.root / ".meta"
        folder.mkdir(exist_ok=True)
        return folder / hashlib.sha256(f"{bucket}/{key}".encode()).hexdigest()


def _escaped(part: str) -> str:
    if part in ("", ".", ".."):
        return {"": "%00", ".": "%2E", "..": "%2E%2E"}[part]
    return quote(part, safe=_PLAIN) if "%" in part else part
