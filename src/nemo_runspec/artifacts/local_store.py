"""A store whose folder this machine sees: read by one walk over its folders, and changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nemo_runspec.artifacts import versions
from nemo_runspec.artifacts.changes import change
from nemo_runspec.artifacts.registry import StoreListing
from nemo_runspec.artifacts.store_changes import WritableStorage
from nemo_runspec.errors import UserError

_NUMBERED = re.compile(r"v\d+")


class LocalStorage(WritableStorage):
    """As `WritableStorage`.

    Args:
        root: the folder of the store.
        name: how a person calls it.
    """

    def __init__(self, root: str, name: str = "") -> None:
        self.root = root
        self.name = name or root

    def look(self, names: Sequence[str] = ()) -> StoreListing:
        """As `ArtifactStorage.look`."""
        manifests: dict[str, Mapping[str, bytes]] = {}
        links: dict[str, dict[str, str]] = {}
        for name in names or self._artifacts():
            folder = f"{self.root}/{name}"
            try:
                manifests[name] = _Manifests(f"{folder}/{versions.FOLDER}")
                links[name] = dict(_links(folder))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise UserError(f"the store cannot be read: {error.strerror}", where=error.filename) from None
        return StoreListing(manifests, links)

    def config(self, artifact: str, digest: str) -> str:
        """As `ArtifactStorage.config`."""
        with suppress(OSError):
            path = Path(self.root, artifact, versions.FOLDER, versions.CONFIG, digest)
            return path.read_text(encoding="utf-8", errors="surrogateescape")
        return ""

    def has(self, path: str) -> bool | None:
        """As `ArtifactStorage.has`."""
        return os.path.exists(path)

    def change(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """As `WritableStorage.change`."""
        return change({**asked, "root": self.root})

    def _artifacts(self) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir() and entry.name[0] != ".")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UserError(f"the store cannot be read: {error.strerror}", where=self.root) from None


class _Manifests(Mapping[str, bytes]):
    """The manifests in a folder, each read when it is asked for: of ten thousand, mostly the newest ones are."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        try:
            self._names = [name for name in os.listdir(folder) if versions.number_of(name)]
        except FileNotFoundError:
            self._names = []

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> bytes:
        """Its text; empty, which is no manifest, where it cannot be read."""
        try:
            with open(f"{self._folder}/{name}", "rb", buffering=0) as stream:
                return stream.read()
        except OSError:
            return b""


def _links(folder: str) -> Iterator[tuple[str, str]]:
    for entry in os.scandir(folder):
        if entry.is_symlink() and entry.name[0] != "." and not _NUMBERED.fullmatch(entry.name):
            with suppress(OSError):
                yield entry.name, os.readlink(entry.path)
