"""Writes a package as one tar.gz: git's own archives one after the other, then the files that patterns add."""

from __future__ import annotations

import os
import stat
import subprocess
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import IO, BinaryIO, Protocol

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.compress import GzipWriter
from nemo_runspec.packaging.git import said
from nemo_runspec.packaging.git_scratch import GitScratch
from nemo_runspec.packaging.model import LINK, Contents, GitTree, PackageEntry
from nemo_runspec.packaging.patterns import blob_id, unreadable

_UNIT = tarfile.BLOCKSIZE
_BLOCK = 1 << 20
_PADDING = bytes(_UNIT)


class _Sink(Protocol):
    def write(self, data: bytes) -> object: ...


def write_archive(contents: Contents, out: BinaryIO, scratch: GitScratch, algorithm: str) -> Contents:
    """Writes the archive; returns the contents with the ids of the files as they were when they were written.

    Raises:
        UserError: git fails, a file cannot be read or changes meanwhile.
    """
    sink = GzipWriter(out)
    try:
        files = {path: entry for path, entry in contents.entries.items() if isinstance(entry.source, Path)}
        alone = len(contents.trees) == 1 and not files
        for tree, dropped in contents.trees.items():
            _write_tree(scratch.without(tree, dropped) if dropped else tree, sink, whole=alone)
        written = {path: _write_file(path, entry, sink, algorithm) for path, entry in files.items()}
        if not alone:
            sink.write(_PADDING * 2)
        sink.close()
    except BaseException:
        sink.abandon()
        raise
    return replace(contents, entries={**contents.entries, **written})


def _write_tree(tree: GitTree, sink: _Sink, *, whole: bool) -> None:
    """What `git archive` makes of a tree. `whole`: with the blocks that end an archive."""
    prefix = (f"--prefix={tree.prefix}",) if tree.prefix else ()
    command = tree.repository.command("archive", "--format=tar", *prefix, tree.treeish)
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command,
            env=tree.repository.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        assert process.stdout is not None
        (_copy if whole else _copy_members)(process.stdout, sink)
        if process.wait():
            errors.seek(0)
            raise UserError(f"git cannot archive {tree.treeish[:12]}: {said(errors.read())}", where=_place(tree))


def _place(tree: GitTree) -> str:
    return str(tree.repository.folder)


def _copy(source: IO[bytes], sink: _Sink) -> None:
    for block in iter(lambda: source.read(_BLOCK), b""):
        sink.write(block)


def _copy_members(source: IO[bytes], sink: _Sink) -> None:
    """Copies the members of an archive without its end, so that more can follow.

    The size stands in bytes 124 to 135 of a header: octal digits, or binary with the highest bit set (GNU tar).
    """
    while True:
        header = source.read(_UNIT)
        if len(header) < _UNIT or header == _PADDING:
            break
        sink.write(header)
        left = -(-_size(header[124:136]) // _UNIT) * _UNIT
        while left:
            block = source.read(min(left, _BLOCK))
            if not block:
                return
            sink.write(block)
            left -= len(block)
    _drain(source)


def _drain(source: IO[bytes]) -> None:
    while source.read(_BLOCK):
        pass


def _size(number: bytes) -> int:
    if number[0] & 0x80:
        return int.from_bytes(number, "big") - (0x80 << 88)
    return int(number.rstrip(b" \0") or b"0", 8)


def _write_file(path: str, entry: PackageEntry, sink: _Sink, algorithm: str) -> PackageEntry:
    """One file or link; returns its entry with the id of what was written."""
    assert isinstance(entry.source, Path)
    try:
        if entry.mode == LINK:
            return _write_link(path, entry, entry.source, sink, algorithm)
        with entry.source.open("rb") as handle:
            status = os.fstat(handle.fileno())
            header = _header(path, tarfile.REGTYPE, status)
            header.size = status.st_size
            sink.write(_bytes(header))
            body = _Body(handle, status.st_size, sink)
            identity = blob_id(algorithm, status.st_size, iter(body.read, b""))
            sink.write(bytes(-status.st_size % _UNIT))
    except OSError as error:
        raise unreadable(error) from None
    if body.left:
        raise UserError(f"{entry.source} became shorter while it was packed", where=str(entry.source))
    mode = f"100{stat.S_IMODE(status.st_mode) & 0o777:03o}"
    return entry._replace(mode=mode, id=identity, size=status.st_size)


def _write_link(path: str, entry: PackageEntry, source: Path, sink: _Sink, algorithm: str) -> PackageEntry:
    header = _header(path, tarfile.SYMTYPE, source.lstat())
    header.linkname = os.readlink(source)  # noqa: PTH115 (a Path would tidy its text)
    sink.write(_bytes(header))
    target = os.fsencode(header.linkname)
    return entry._replace(id=blob_id(algorithm, len(target), [target]))


class _Body:
    """Reads a file up to the size in its header, and passes on what it reads."""

    def __init__(self, handle: BinaryIO, size: int, sink: _Sink) -> None:
        self.handle = handle
        self.left = size
        self.sink = sink

    def read(self) -> bytes:
        block = self.handle.read(min(self.left, _BLOCK))
        self.left -= len(block)
        if block:
            self.sink.write(block)
        return block


def _header(path: str, kind: bytes, status: os.stat_result) -> tarfile.TarInfo:
    header = tarfile.TarInfo(path)
    header.type = kind
    header.mode = stat.S_IMODE(status.st_mode) & 0o777
    header.mtime = int(status.st_mtime)
    return header


def _bytes(header: tarfile.TarInfo) -> bytes:
    # GNU's format holds names of any length and any bytes as they are; pax wants UTF-8.
    return header.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
