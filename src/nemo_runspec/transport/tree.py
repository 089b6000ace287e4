"""Files and folders of another machine brought here: what is here already stays, what was half here goes on.

By bash, find, tail and head there, over the connection that there is anyway: many small files come in one round trip,
a large one in several.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Host

AT_ONCE = 32 << 20
"""Bytes of one round trip."""

_LIST = """\
path={path}
[ -e "$path" ] || { echo gone; exit 0; }
if [ -d "$path" ]; then echo folder; find "$path" \\( -type f -o -type l \\) -printf '%y\\t%s\\t%T@\\t%l\\t%P\\0'
else echo file; find -L "$path" -type f -printf '%y\\t%s\\t%T@\\t\\t%f\\0'; fi
"""
_NAMES = """\
cd -- {path} || exit 1
find . -mindepth 1 -maxdepth 1 ! -name '.*' \\( -type d -printf '%T@ %f/\\0' -o -printf '%T@ %f\\0' \\) | sort -z -n -r
"""
_READ = """\
while IFS= read -r -d '' start && IFS= read -r -d '' length && IFS= read -r -d '' file; do
  tail -c "+$((start + 1))" -- "$file" | head -c "$length" || exit 1
done
"""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file. `path`: below what was asked for; `link`: what a link leads to, '' for a file; times in seconds."""

    path: str
    size: int
    changed: float
    link: str = ""


@dataclass(frozen=True, slots=True)
class FileTree:
    """What lies at a path: a folder with files below it, or one file."""

    path: str
    is_folder: bool
    files: Sequence[RemoteFile]

    def place_of(self, file: RemoteFile) -> str:
        """Where a file of it lies there."""
        return f"{self.path.rstrip('/')}/{file.path}" if self.is_folder else self.path


@dataclass(slots=True)
class Pulled:
    """How far it is: bytes and files of all there are. `there`: bytes that were here before."""

    bytes: int = 0
    files: int = 0
    done_bytes: int = 0
    done_files: int = 0
    there: int = 0


class FileStore(Protocol):
    """Where files lie that can be brought here. `name`: for a person."""

    name: str

    def listed(self, path: str) -> FileTree | None:
        """The files at a path, or below it; None where nothing is there."""

    def entries(self, path: str) -> Sequence[str]:
        """The names in a folder, those of folders end with a slash, newest first if that is known; none without it."""

    def pull(self, tree: FileTree, target: Path, seen: Callable[[Pulled], object]) -> Pulled:
        """Brings them into a folder here; `seen` is told how far it is. What is here already stays."""


class HostFiles:
    """The files of a machine. As `FileStore`."""

    def __init__(self, host: Host) -> None:
        self.name = host.name
        self.host = host

    def listed(self, path: str) -> FileTree | None:
        """As the function."""
        return listed(self.host, path)

    def entries(self, path: str) -> Sequence[str]:
        """As `FileStore.entries`. One round trip."""
        done = self.host.run(_NAMES.replace("{path}", shlex.quote(path)))
        rows = [] if done.code else os.fsdecode(done.out).split("\0")
        return [row.partition(" ")[2] for row in rows if row]

    def pull(self, tree: FileTree, target: Path, seen: Callable[[Pulled], object]) -> Pulled:
        """As the function."""
        return pull(self.host, tree, target, seen)


def listed(host: Host, path: str) -> FileTree | None:
    """The files at a path, or below it; None where nothing is there. One round trip.

    Raises:
        Unreachable: the host does not answer.
        UserError: it cannot be read there.
    """
    done = host.run(_LIST.replace("{path}", shlex.quote(path)), timeout=600)
    head, _, rest = done.out.partition(b"\n")
    if head == b"gone":
        return None
    if done.code or head not in (b"folder", b"file"):
        raise UserError(f"{path} cannot be read on {host.name}: {done.said}")
    return FileTree(path, head == b"folder", [_file(line) for line in os.fsdecode(rest).split("\0") if line])


def pull(host: Host, tree: FileTree, target: Path, seen: Callable[[Pulled], object]) -> Pulled:
    """Brings files into a folder here. What is here with the same size and time is not read again.

    Args:
        seen: is told how far it is, again and again.

    Raises:
        Unreachable: the connection was lost; the same again goes on where it ended.
        UserError: a file has changed while it was read. OSError: it cannot be written here.
    """
    plain = [file for file in tree.files if not file.link]
    state = Pulled(sum(file.size for file in plain), len(tree.files))
    wanted = [_Part(file, tree.place_of(file), target / file.path) for file in plain]
    for part in wanted:
        part.begin()
    state.there = state.done_bytes = sum(part.have for part in wanted)
    state.done_files = sum(part.done for part in wanted)
    seen(state)
    for batch in _batches(wanted):
        _read(host, batch)
        state.done_bytes += sum(length for _, length in batch)
        state.done_files += sum(part.done for part, _ in batch)
        seen(state)
    for file in tree.files:
        if file.link:
            _link(target / file.path, file.link)
            state.done_files += 1
    seen(state)
    return state


class _Part:
    """One file on its way. What there is of it bears its size and time in its name: another version begins anew."""

    def __init__(self, file: RemoteFile, there: str, here: Path) -> None:
        self.file = file
        self.there = there
        self.here = here
        self.partial = self.here.with_name(f".{self.here.name}.{file.size}-{file.changed:.0f}.part")
        self.have = 0
        self.done = False

    def begin(self) -> None:
        """Finds out what is here already."""
        with suppress(OSError):
            known = self.here.stat()
            self.done = known.st_size == self.file.size and abs(known.st_mtime - self.file.changed) < 1
        if self.done:
            self.have = self.file.size
            return
        self.here.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):
            self.have = min(self.partial.stat().st_size, self.file.size)
        if self.have == self.file.size:
            self.add(b"")

    def add(self, data: bytes) -> None:
        """Takes what comes next; all of it is there under its own name."""
        with self.partial.open("ab") as out:
            out.truncate(self.have)
            out.write(data)
        self.have += len(data)
        if self.have == self.file.size:
            os.utime(self.partial, (self.file.changed, self.file.changed))
            self.partial.replace(self.here)
            self.done = True


def _batches(parts: Sequence[_Part]) -> Iterator[list[tuple[_Part, int]]]:
    """What is asked for together: parts, and how much of each."""
    batch: list[tuple[_Part, int]] = []
    room = AT_ONCE
    for part in parts:
        left = 0 if part.done else part.file.size - part.have
        while left > 0:
            length = min(left, room)
            batch.append((part, length))
            left, room = left - length, room - length
            if room == 0:
                yield batch
                batch, room = [], AT_ONCE
    if batch:
        yield batch


def _read(host: Host, batch: Sequence[tuple[_Part, int]]) -> None:
    asked = b"".join(
        os.fsencode(f"{word}\0") for part, length in batch for word in (str(part.have), str(length), part.there)
    )
    done = host.run(_READ, data=asked, timeout=3600)
    if len(done.out) != sum(length for _, length in batch):
        names = ", ".join(dict.fromkeys(part.file.path for part, _ in batch[:3]))
        raise UserError(
            f"{names} did not arrive whole from {host.name}" + (f": {done.said}" if done.err else ""),
            remedy="if it is still being written, wait for its end; else the same again goes on where this ended",
        )
    at = 0
    for part, length in batch:
        part.add(done.out[at : at + length])
        at += length


def _link(path: Path, leads_to: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        path.unlink()
    path.symlink_to(leads_to)


def _file(line: str) -> RemoteFile:
    kind, size, changed, link, path = line.split("\t", 4)
    return RemoteFile(path, int(size), float(changed), link if kind == "l" else "")
