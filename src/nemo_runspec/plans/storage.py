"""Tells storage that outlives a job from the disk of its own container, by paths. Pure.

Every backend's target tells its mounts as a `Storage`; `planning/kept.py` holds a plan's paths against it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_runspec.paths import below

READ_ONLY = "read-only"

OF_IMAGES = frozenset({
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root", "/run",
    "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/var", "/workspace",
})  # fmt: skip
"""Folders that images bring themselves: nothing is mounted over them unasked."""

_OF_KERNEL = ("/dev", "/proc", "/sys")
_FLAGS = re.compile(r"[,+]")
_OF_THE_JOB = re.compile(r"/dev/shm(/|$)|\$\{?(SLURM_)?TMPDIR\b")
"""Sources that are gone with the job: memory, and what schedulers make for it alone."""
_MOST_LINKS = 40


@dataclass(frozen=True, slots=True)
class StorageMount:
    """Something mounted into a job's container.

    Args:
        target: where the job sees it.
        source: what it is, as the executor names it; '' where it has no path.
        lost: why what is written there does not outlive the job, such as `read-only` or `memory`; '' where it does.
    """

    target: str
    source: str = ""
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Storage:
    """All that a job sees which may outlive it.

    Args:
        mounts: in any order; of several at one place the last counts.
        whole: the job has no disk of its own: what it writes is where it says, wherever that is.
        key: the profile key that adds a mount.
        example: one of its items, with `{path}` for the place.
        uploaded: paths that are copied away when the job ends.
        fetched: paths that are put there before it starts.
        homes: how an absolute path may begin besides `/`.
        link_of: what a link points to, None for what is none, given a path of a mount's source; None where sources
            cannot be looked at from here.
    """

    mounts: tuple[StorageMount, ...] = ()
    whole: bool = False
    key: str = "mounts"
    example: str = '"{path}:{path}"'
    uploaded: tuple[str, ...] = ()
    fetched: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    link_of: Callable[[str], str | None] | None = None

    def mount_of(self, path: str) -> StorageMount | None:
        """The innermost mount that a path lies on."""
        over = [mount for mount in self.mounts if below(_plain(path), _plain(mount.target))]
        return max(reversed(over), key=lambda mount: len(_plain(mount.target)), default=None)

    def source_of(self, path: str) -> str | None:
        """The same path where the job runs but outside its container; None where it is on no mount."""
        if self.whole:
            return path
        mount = self.mount_of(path)
        if mount is None or not mount.source:
            return None
        return f"{mount.source.rstrip('/')}{_plain(path)[len(_plain(mount.target).rstrip('/')) :]}"

    def why_lost(self, path: str) -> str:
        """Why what a job writes at a path does not outlive it, as the end of a sentence; '' where it does."""
        if self.whole or self._is_below(path, self.uploaded):
            return ""
        return self._why_unknown(path) or self._why_not_kept(path)

    def why_absent(self, path: str) -> str:
        """Why a job cannot see what lies at a path outside its container; '' where it can."""
        if self.whole or self._is_below(path, self.fetched):
            return ""
        mount = self.mount_of(path)
        return self._why_unknown(path) or ("" if mount else f"is on none of {self.key}")

    def _why_unknown(self, path: str) -> str:
        if not path.startswith(("/", *self.homes)):
            return "is not an absolute path"
        return "is written with '..', which says nothing where there are links" if ".." in path.split("/") else ""

    def _why_not_kept(self, path: str) -> str:
        found = self._followed(path)
        mount = self.mount_of(found)
        through = "" if found == _plain(path) else f" leads to {found}, which"
        if mount is None:
            return f"{through} is on none of {self.key}".strip()
        return f"{through} is on {_plain(mount.target)}, which is {mount.lost}".strip() if mount.lost else ""

    def _is_below(self, path: str, folders: Iterable[str]) -> bool:
        return any(below(_plain(path), _plain(folder)) for folder in folders)

    def _followed(self, path: str) -> str:
        """The path with the links on mounts followed, as the container would; as far as they can be seen from here."""
        done, left, followed = "", _plain(path).split("/")[1:], 0
        if self.link_of is None:
            return _plain(path)
        while left and followed < _MOST_LINKS:
            part = left.pop(0)
            done = posixpath.dirname(done) if part == ".." else f"{done.rstrip('/')}/{part}"
            mount = self.mount_of(done)
            link = self.link_of(self.source_of(done) or "") if mount and done != _plain(mount.target) else None
            if link is not None:
                start = "" if link.startswith("/") else posixpath.dirname(done)
                done, left, followed = start, [*_parts(link), *left], followed + 1
        return done or "/"


def mounts_of_words(words: Iterable[str]) -> tuple[StorageMount, ...]:
    """Mounts written as `source:target[:flags]`, or as one path that is both."""
    parts = (word.split(":") for word in words if word)
    return tuple(
        StorageMount(part[1] if len(part) > 1 else part[0], part[0], _lost(part[0], ":".join(part[2:])))
        for part in parts
    )


def may_be_mounted_over(path: str) -> bool:
    """True if a folder may be mounted at a place of that name unasked: it hides nothing that an image needs."""
    plain = _plain(path)
    return (
        path.startswith("/")
        and ".." not in path.split("/")
        and not re.search(r"[:,\s]", path)
        and plain not in OF_IMAGES
        and not any(below(plain, folder) for folder in _OF_KERNEL)
    )


def tables(value: Any) -> list[Mapping[str, Any]]:
    """The tables of a list that somebody wrote; nothing of what is none."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, (list, tuple)) else []


def _lost(source: str, flags: str) -> str:
    if "ro" in _FLAGS.split(flags):
        return READ_ONLY
    return "gone with the job" if _OF_THE_JOB.match(source) else ""


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _plain(path: str) -> str:
    """A mount's place without a trailing slash. POSIX keeps two leading ones, which mean nothing here."""
    return re.sub(r"^//+", "/", posixpath.normpath(path))
