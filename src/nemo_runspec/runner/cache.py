"""The cache below nemotron's own folder, which can mostly be made again: listed with size, age and users; deleted.

Environments of local jobs, packages of code, clones of repositories, and logs that were mirrored from other machines.
Nothing that a living job needs is taken away, nor what somebody has asked for in the last minutes: a job that is being
made ready is not recorded with all that it needs yet. A mirrored log may be the only copy by now, which nobody here can
tell: it is taken away only where logs are named.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from nemo_runspec import envs, paths
from nemo_runspec.locks import Busy, locked_file
from nemo_runspec.packaging.cache import packages_dir
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.follow import log_of
from nemo_runspec.records.lock import locked
from nemo_runspec.submission.layout import ARCHIVE
from nemo_runspec.submission.mount_commits import read_mounts

JUST_USED = 600.0
"""Seconds after its last use in which nothing is taken away, whatever is asked for."""

_CLONE = "mirror.git"


@dataclass(frozen=True)
class CacheEntry:
    """One thing that is kept.

    Args:
        kind: `environments`, `packages`, `clones` or `logs`.
        name: for a person.
        path: the folder or the file.
        size: bytes.
        used: when it was last asked for, seconds since 1970.
        needed_by: names of jobs that are not over and need it; of a package also of those that hold it.
    """

    kind: str
    name: str
    path: Path
    size: int
    used: float
    needed_by: tuple[str, ...] = ()


def entries(kinds: Sequence[str] = ()) -> list[CacheEntry]:
    """What there is, the largest first. `kinds`: of these only."""
    store = JobStore()
    jobs = [record for record in map(store.read, store.entries()) if isinstance(record, JobRecord)]
    found = [entry for kind, look in _LOOKS.items() if not kinds or kind in kinds for entry in look(store, jobs)]
    return sorted(found, key=lambda entry: -entry.size)


def not_needed(found: Sequence[CacheEntry], older_than: float) -> list[CacheEntry]:
    """What no job needs, and nobody has asked for lately.

    Args:
        found: what `entries` gave.
        older_than: seconds since its last use, at least.
    """
    return [entry for entry in found if not entry.needed_by and time.time() - entry.used >= max(older_than, JUST_USED)]


def prune(found: Sequence[CacheEntry], older_than: float) -> list[CacheEntry]:
    """Takes away what `not_needed` names of it; what is gone now."""
    return [entry for entry in not_needed(found, older_than) if _removed(entry, older_than)]


def _removed(entry: CacheEntry, older_than: float) -> bool:
    """True if it is gone now. Looked at once more under its lock: somebody may have asked for it meanwhile."""
    with suppress(OSError, Busy):
        return _REMOVALS[entry.kind](entry, lambda used: time.time() - used >= max(older_than, JUST_USED))
    return False


def _environments(store: JobStore, records: Sequence[JobRecord]) -> Iterator[CacheEntry]:
    users = _users(store, records, lambda folder, _: envs.used_by(folder))
    for folder in _folders(paths.envs_dir()):
        yield CacheEntry("environments", _env_name(folder), folder, _size(folder), _env_used(folder), users(folder))


def _env_name(folder: Path) -> str:
    """By what was asked for, as a person wrote it."""
    try:
        return ", ".join(map(str, json.loads(envs.marker(folder).read_text(encoding="utf-8"))["dependencies"]))
    except (OSError, ValueError, KeyError, TypeError):
        return "unfinished"


def _env_used(folder: Path) -> float:
    marker = envs.marker(folder)
    return _changed(marker if marker.exists() else folder)


def _packages(store: JobStore, records: Sequence[JobRecord]) -> Iterator[CacheEntry]:
    """A package that a job holds has more names than one (`packaging.cache`)."""
    holders: dict[int, list[str]] = {}
    for record in records:
        with suppress(OSError):
            holders.setdefault((store.folder(record.name) / ARCHIVE).stat().st_ino, []).append(record.name)
    with suppress(OSError):
        for archive in sorted(packages_dir().glob("*.tar.gz")):
            found = archive.stat()
            held = tuple(holders.get(found.st_ino, ())) or (("a job",) if found.st_nlink > 1 else ())
            yield CacheEntry("packages", archive.name[:12], archive, _room(found), found.st_mtime, held)


def _clones(store: JobStore, records: Sequence[JobRecord]) -> Iterator[CacheEntry]:
    users = _users(store, records, lambda folder, _: [Path(m.path).parents[2] for m in read_mounts(folder)])
    for folder in _folders(paths.home() / "git"):
        if (folder / _CLONE).is_dir():
            # A checkout's folder is made where a job begins, long before that job has told of it.
            used = max(map(_changed, (folder / "lock", folder / _CLONE, folder / "jobs")))
            yield CacheEntry("clones", folder.name, folder, _size(folder), used, users(folder))


def _logs(store: JobStore, records: Sequence[JobRecord]) -> Iterator[CacheEntry]:
    """Of jobs elsewhere alone: of a job of this machine there is no other log."""
    for record in records:
        log = log_of(store.folder(record.name))
        if record.handle and log.with_name("fetched.json").exists() and log.exists():
            used = datetime.fromisoformat(record.changed).timestamp()
            needed = () if record.ended else (record.name,)
            yield CacheEntry("logs", record.name, log, _room(log.stat()), used, needed)


_LOOKS: Mapping[str, Callable[[JobStore, Sequence[JobRecord]], Iterator[CacheEntry]]] = {
    "environments": _environments,
    "packages": _packages,
    "clones": _clones,
    "logs": _logs,
}
KINDS = tuple(_LOOKS)
MADE_ANEW = tuple(kind for kind in KINDS if kind != "logs")
"""Kinds of what is made again when it is needed, for certain."""


def _users(
    store: JobStore, records: Sequence[JobRecord], needs: Callable[[Path, JobRecord], Sequence[Path]]
) -> Callable[[Path], tuple[str, ...]]:
    """Which living jobs need a folder, as a function of it."""
    found: dict[Path, list[str]] = {}
    for record in records:
        for folder in needs(store.folder(record.name), record) if not record.ended else ():
            found.setdefault(folder, []).append(record.name)
    return lambda folder: tuple(found.get(folder, ()))


def _remove_environment(entry: CacheEntry, is_old: Callable[[float], bool]) -> bool:
    with locked_file(envs.lock_file(entry.path), wait=False):
        return is_old(_env_used(entry.path)) and _delete_folder(entry.path)


def _remove_package(entry: CacheEntry, is_old: Callable[[float], bool]) -> bool:
    found = entry.path.stat()
    if found.st_nlink > 1 or not is_old(found.st_mtime):
        return False
    entry.path.unlink()
    return True


def _remove_clone(entry: CacheEntry, is_old: Callable[[float], bool]) -> bool:
    """All but the lock, which another process may wait for."""
    with locked_file(entry.path / "lock", wait=False):
        again = next((each for each in entries(["clones"]) if each.path == entry.path), entry)
        if again.needed_by or not is_old(max(map(_changed, (entry.path / _CLONE, entry.path / "jobs")))):
            return False
        gone = [_delete_folder(entry.path / name) for name in (_CLONE, "jobs") if (entry.path / name).exists()]
        return all(gone)


def _remove_log(entry: CacheEntry, is_old: Callable[[float], bool]) -> bool:
    with locked(entry.path.parent, wait=False):
        entry.path.with_name("fetched.json").unlink(missing_ok=True)
        entry.path.unlink()
    return True


_REMOVALS: Mapping[str, Callable[[CacheEntry, Callable[[float], bool]], bool]] = {
    "environments": _remove_environment,
    "packages": _remove_package,
    "clones": _remove_clone,
    "logs": _remove_log,
}


def _delete_folder(folder: Path) -> bool:
    """Out of sight in one step, so that nobody finds a half of it; then for good."""
    aside = folder.with_name(f".gone-{folder.name}.{os.getpid()}")
    folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)
    return True


def _folders(top: Path) -> list[Path]:
    """Those below a folder; what a killed process was taking away goes."""
    with suppress(OSError):
        for left in top.glob(".gone-*"):
            shutil.rmtree(left, ignore_errors=True)
        return sorted(each for each in top.iterdir() if each.is_dir() and not each.name.startswith("."))
    return []


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _size(folder: Path) -> int:
    """Bytes on the disk of all files below a folder; a file of several names counts once."""
    seen: dict[tuple[int, int], int] = {}
    for parent, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                found = os.lstat(f"{parent}/{name}")
                seen[found.st_dev, found.st_ino] = _room(found)
    return sum(seen.values())


def _room(found: os.stat_result) -> int:
    return found.st_blocks * 512 if stat.S_ISREG(found.st_mode) else 0
