"""Outputs of a cloud job, brought here from S3: a job's pods are gone by then, and what they uploaded stays."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from nemo_runspec.backends.capabilities import KeptFiles
from nemo_runspec.backends.cloud.fields import CloudTarget
from nemo_runspec.backends.cloud.storage.bucket import Bucket, from_environment
from nemo_runspec.backends.cloud.storage.data_outputs import output_names
from nemo_runspec.backends.cloud.storage.s3 import Object
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.transport.tree import FileTree, Pulled, RemoteFile


def kept_files(plan: Plan) -> KeptFiles:
    """Where a job's outputs were uploaded to.

    Raises:
        UserError: nowhere, or there are no keys for it here.
    """
    target = target_of(plan, CloudTarget)
    if not target.outputs or not target.output_url:
        raise UserError(
            f"job '{plan.name}' uploads nothing, and its pods cannot be reached from here",
            remedy='let the job upload what it makes: outputs = ["/results"], output_url = "s3://bucket/results"',
        )
    bucket = from_environment(target.s3_endpoint, target.s3_region)
    if bucket is None:
        raise UserError("there are no keys for S3 here", remedy="export ACCESS_KEY=… SECRET_KEY=…")
    root = f"{target.output_url.rstrip('/')}/{plan.name}"
    outputs = {name.rpartition("/")[2]: f"{root}/{name}" for name in output_names(target.outputs)}
    return KeptFiles(S3Files(bucket), root, outputs)


class S3Files:
    """Objects as files. As `transport.tree.FileStore`."""

    name = "S3"

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._objects: Mapping[str, Object] = {}

    def listed(self, path: str) -> FileTree | None:
        """The object of that URL, or those below it."""
        alone = self._bucket.head(path)
        if alone is not None:
            name = path.rpartition("/")[2]
            self._objects = {**self._objects, path: alone}
            return FileTree(path, False, [RemoteFile(name, alone.size, alone.modified)])
        found = {f"{path.rstrip('/')}/{name}": each for name, each in self._bucket.below(path) if _is_safe(name)}
        self._objects = {**self._objects, **found}
        top = len(path.rstrip("/")) + 1
        files = [RemoteFile(url[top:], each.size, each.modified) for url, each in found.items()]
        return FileTree(path, True, files) if files else None

    def entries(self, path: str) -> Sequence[str]:
        """As `FileStore.entries`."""
        names = (name.partition("/") for name in self._bucket.first_below(path))
        return sorted({f"{name}{slash}" for name, slash, _ in names})

    def pull(self, tree: FileTree, target: Path, seen: Callable[[Pulled], object]) -> Pulled:
        """Downloads each; what is here with its size and time stays, what was half here goes on."""
        state = Pulled(sum(file.size for file in tree.files), len(tree.files))
        for file in tree.files:
            here = target / file.path
            if _is_here(here, file):
                state.there += file.size
                state.done_bytes += file.size
            else:
                self._download(tree.place_of(file), here, file, state, seen)
            state.done_files += 1
            seen(state)
        return state

    def _download(
        self, url: str, here: Path, file: RemoteFile, state: Pulled, seen: Callable[[Pulled], object]
    ) -> None:
        found = self._objects[url]
        here.parent.mkdir(parents=True, exist_ok=True)
        partial = here.with_name(f".{here.name}.{found.etag[:32] or file.size}.part")
        partial.touch()
        with _Counted(partial, state, seen) as out:
            out.seek(0, io.SEEK_END)
            state.there += out.tell()
            state.done_bytes += out.tell()
            self._bucket.download(url, found, out)
        os.utime(partial, (file.changed, file.changed))
        partial.replace(here)


class _Counted(io.FileIO):
    """A file that tells how much is written to it."""

    def __init__(self, path: Path, state: Pulled, seen: Callable[[Pulled], object]) -> None:
        super().__init__(path, "r+b")
        self._state = state
        self._seen = seen

    def write(self, data: bytes) -> int:  # type: ignore[override]  # whatever can be written
        """Writes all of it."""
        written = super().write(data)
        self._state.done_bytes += written
        self._seen(self._state)
        return written


def _is_safe(name: str) -> bool:
    """True if an object's name stays below the folder: whoever writes to the bucket chooses it."""
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.endswith("/") and not name.startswith("/") and ".." not in parts


def _is_here(path: Path, file: RemoteFile) -> bool:
    with suppress(OSError):
        known = path.stat()
        return known.st_size == file.size and abs(known.st_mtime - file.changed) < 1
    return False
