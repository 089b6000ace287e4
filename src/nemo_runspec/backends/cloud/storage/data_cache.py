"""Copies of S3 objects on disk, which jobs and nodes may share: whole and up to date, or not there. Travels with jobs.

A copy's sidecar states the object's etag and size, and the copy's time of modification, which is the object's: a copy
that was cut, replaced or written to does not fit its sidecar, and is fetched again. Copies appear by a rename, so the
lock below only saves work: that two fetch the same at once would be waste, and no harm.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence  # noqa: UP035  (Python 3.6)

from nemo_runspec.backends.cloud.storage.data_staged import staged
from nemo_runspec.backends.cloud.storage.s3 import S3, Object, S3Error

AT_ONCE = 8
"""Objects that are moved at the same time."""

_TRIES = 4
"""How often an object is fetched that changes while it is fetched."""


class Location(NamedTuple):
    """Where copies of the objects below one URL are.

    Args:
        base: the copy of `key`; where `key` is empty or ends in a slash, the directory of all that are below it.
        state: directory for sidecars.
        parts: for what is not whole yet, on the same file system.
        lock: held while something is fetched; None where nobody else may come.
    """

    bucket: str
    key: str
    base: Path
    state: Path
    parts: Path
    lock: "Path | None"

    @property
    def many(self) -> bool:
        """True if it is a directory."""
        return not self.key or self.key.endswith("/")

    @property
    def url(self) -> str:
        """As a person writes it."""
        return f"s3://{self.bucket}/{self.key}"

    def file(self, key: str) -> Path:
        """Where the copy of an object is. Raises `S3Error` for a key that cannot name a file."""
        if not self.many:
            return self.base
        parts = key[len(self.key) :].split("/")
        if {"", ".", ".."} & set(parts) or "\0" in key:
            raise S3Error(f"s3://{self.bucket}/{key}: its key cannot be the name of a file")
        return self.base.joinpath(*map(file_name, parts))

    def sidecar(self, key: str) -> Path:
        """Where it is written what the copy of an object is a copy of."""
        name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        return self.state / name[:2] / (name + ".json")


class Copies(NamedTuple):
    """What copies there are now.

    Args:
        fetched: those of them that were not there before.
        staged: those that lay elsewhere on a mount, and are used
            where they are.
    """

    files: int
    size: int
    fetched: int
    staged: int = 0


def file_name(text: str) -> str:
    """A name as this machine's files have it: UTF-8, whatever the locale says (Python 3.6 heeds `LC_ALL=C`)."""
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def cache_location(cache: Path, bucket: str, key: str) -> Location:
    """The place of an input below a cache's root, which several jobs and nodes may use at once."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", bucket) or {".", "..", ""} & set((key.rstrip("/") or "x").split("/")):
        raise S3Error(f"s3://{bucket}/{key}: it cannot be the name of a file")
    state = cache / ".state" / bucket
    name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
    base = cache.joinpath(bucket, *map(file_name, filter(None, key.split("/"))))
    return Location(bucket, key, base, state, state / (name + ".parts"), state / (name + ".lock"))


def fetch(s3: S3, location: Location, roots: "Sequence[Path]" = ()) -> Copies:
    """Makes the copies what the objects are now.

    Args:
        roots: folders below which `bucket/key` may be a copy already.

    Raises:
        S3Error: there is no such object, or it cannot be fetched.
    """
    wanted = _wanted(s3, location)
    if all(is_whole(location, each) for each in wanted) and not _stale(location, wanted):
        return Copies(len(wanted), sum(each.size for each in wanted), 0)
    with locked(location):
        wanted = _wanted(s3, location)
        for file in _stale(location, wanted):
            _forget(s3, location, file)
        lacking = [each for each in wanted if not is_whole(location, each)]
        missing = [each for each in lacking if not _linked(location, each, staged(roots, location.bucket, each))]
        shutil.rmtree(str(location.parts), ignore_errors=True)
        try:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(lambda each: _fetch_object(s3, location, each), missing))  # the first error ends it
        finally:
            shutil.rmtree(str(location.parts), ignore_errors=True)
    return Copies(len(wanted), sum(each.size for each in wanted), len(missing), len(lacking) - len(missing))


def link(location: Location, found: Object, file: Path) -> None:
    """Makes a file elsewhere the copy of an object, which it is: used where it is, until it changes."""
    place = _made_room(location, found.key)
    scratch = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    scratch.symlink_to(file)
    _replace(location, found, scratch)


def _linked(location: Location, found: Object, file: "Path | None") -> bool:
    if file is None or file == location.file(found.key):
        return False
    try:
        link(location, found, file)
    except OSError:
        return False
    return True


def is_whole(location: Location, found: Object) -> bool:
    """True if the copy of an object is there, whole, and of the object as it is now."""
    try:
        known = json.loads(location.sidecar(found.key).read_text(encoding="utf-8"))
        there = location.file(found.key).stat()
    except (OSError, ValueError):
        return False
    return found.size == there.st_size and bool(known == _stamp(found, there))


def _stamp(found: Object, there: os.stat_result) -> "dict[str, object]":
    """What a copy is known by. In nanoseconds, else one of the same size written within the second passes for it."""
    return {"key": found.key, "etag": found.etag, "size": there.st_size, "modified": there.st_mtime_ns}


def _wanted(s3: S3, location: Location) -> "list[Object]":
    """The objects as they are now; those that only stand for a folder are none."""
    if not location.many:
        return [s3.head(location.bucket, location.key)]
    found = [each for each in s3.listing(location.bucket, location.key) if not each.key.endswith("/")]
    if not found:
        raise S3Error(f"{location.url} has no objects", "check the path: without a slash at its end it is one object")
    return found


def _stale(location: Location, wanted: "list[Object]") -> "list[Path]":
    """Copies of ours, which have sidecars, in a directory whose objects were not listed."""
    if not location.many:
        return []
    keep = {location.file(each.key) for each in wanted}
    there = (Path(folder, name) for folder, _, names in os.walk(str(location.base)) for name in names)
    return [file for file in there if file not in keep and location.sidecar(_key(location, file)).is_file()]


def _key(location: Location, file: Path) -> str:
    """The object that a file in a directory of copies is a copy of."""
    name = os.fsencode(file.relative_to(location.base).as_posix()).decode("utf-8", "surrogateescape")
    return location.key + name


def _forget(s3: S3, location: Location, file: Path) -> None:
    """Removes a copy whose object is gone. Asked for by name: it may have come since the others were listed."""
    key = _key(location, file)
    try:
        s3.head(location.bucket, key)
    except S3Error as error:
        if error.status != 404:
            raise
        with suppress(FileNotFoundError):
            file.unlink()
            location.sidecar(key).unlink()


def _fetch_object(s3: S3, location: Location, found: Object) -> None:
    """Makes one copy. An object that changes meanwhile is fetched again, as it is then."""
    for left in reversed(range(_TRIES)):
        try:
            _fetch_once(s3, location, found)
            return
        except S3Error as error:
            if error.status != 412 or not left:
                raise
        except FileNotFoundError:  # without locks another one has cleared away what this one had begun
            if not left:
                raise
        found = s3.head(location.bucket, found.key)


def _fetch_once(s3: S3, location: Location, found: Object) -> None:
    _made_room(location, found.key)
    location.parts.mkdir(parents=True, exist_ok=True)
    part = location.parts / (uuid.uuid4().hex + ".partial")
    try:
        with part.open("wb") as out:
            s3.download(location.bucket, found, out)
            out.flush()
            os.fsync(out.fileno())
        os.utime(str(part), (found.modified, found.modified))
        _replace(location, found, part)
    finally:
        with suppress(OSError):
            part.unlink()


def _made_room(location: Location, key: str) -> Path:
    """Where the copy of an object goes, its folder and that of its sidecar made."""
    place = location.file(key)
    for folder in (place.parent, location.sidecar(key).parent):
        folder.mkdir(parents=True, exist_ok=True)
    return place


def _replace(location: Location, found: Object, scratch: Path) -> None:
    """Puts a copy in its place, then its sidecar: none may speak of the copy that comes next."""
    sidecar = location.sidecar(found.key)
    with suppress(FileNotFoundError):
        sidecar.unlink()
    stamp = _stamp(found, scratch.stat())  # read back: not every file system keeps what it was told
    scratch.replace(location.file(found.key))
    written = sidecar.with_name(f"{sidecar.name}.{uuid.uuid4().hex}")
    written.write_text(json.dumps(stamp), encoding="utf-8")
    written.replace(sidecar)


@contextmanager
def locked(location: Location) -> "Iterator[None]":
    """Holds the lock of a place in the cache. The kernel frees it when its holder dies; some file systems have none."""
    if location.lock is None:
        yield
        return
    location.lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(str(location.lock), os.O_RDWR | os.O_CREAT, 0o666)  # locks on NFS ask for a file to be written
    except PermissionError:  # another user's
        handle = os.open(str(location.lock), os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
