"""A store that can be changed: data added from outside, tags, versions removed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from nemo_runspec.artifacts.registry import Registry, StoreListing, Version
from nemo_runspec.errors import UserError


class WritableStorage(ABC):
    """As `ArtifactStorage`, with changes. `root`, `name`: as there; `elsewhere`: another machine has what is added."""

    root: str
    name: str
    elsewhere = False

    @abstractmethod
    def look(self, names: Sequence[str] = ()) -> StoreListing:
        """As `ArtifactStorage.look`."""

    @abstractmethod
    def config(self, artifact: str, digest: str) -> str:
        """As `ArtifactStorage.config`."""

    @abstractmethod
    def has(self, path: str) -> bool | None:
        """As `ArtifactStorage.has`."""

    @abstractmethod
    def change(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Makes a change as `changes.change` does, where the store is, but for `root`, which is added; its answer."""

    def checked(self, path: str, checker: str) -> Mapping[str, Any]:
        """What a checker finds on the machine that has it, where that is another one; as `checks.main.check`.

        Raises:
            UserError: it cannot be asked.
        """
        raise NotImplementedError(path, checker)


def add(storage: WritableStorage, name: str, path: str, *, type: str, note: str = "") -> Version:
    """Registers data from outside as a version of an artifact; nothing is copied or moved.

    Args:
        path: whole, as the machine that has the store sees it.

    Raises:
        UserError: no such path, a name that none can be, or a store that cannot be written.
    """
    number = _made(storage, {"action": "add", "name": name, "path": path, "type": type, "note": note})
    return Registry(storage, [name]).get(f"{name}:{number}")


def tag(storage: WritableStorage, version: Version, word: str) -> None:
    """Lets a word lead to a version, and to no other one of the artifact any more.

    Raises:
        UserError: a word that cannot be one, or a store that cannot be written.
    """
    _made(storage, {"action": "tag", "name": version.name, "number": version.number, "word": word})


def remove(storage: WritableStorage, version: Version, *, data: bool) -> None:
    """Takes a version away. Its number is not given again. Its data stay unless they are meant too.

    Args:
        data: remove the data, which lie in the store's own folder.

    Raises:
        UserError: the store cannot be written, or the data lie elsewhere; nothing is changed then.
    """
    _made(storage, {"action": "remove", "name": version.name, "number": version.number, "data": data})


def require_manifest(version: Version) -> None:
    """Raises `UserError` for a version of which nothing is known: it has no number by which it could be changed."""
    if not version.is_numbered:
        raise UserError(
            f"{version.name} was made by a release, or in an image, that writes no manifest: it has no number",
            remedy=f"register it: nemotron artifacts add {version.path} --name {version.name} --type TYPE",
        )


def _made(storage: WritableStorage, asked: Mapping[str, Any]) -> int:
    answer = storage.change(asked)
    if "refused" in answer:
        raise UserError(answer["refused"], where=answer.get("where"), remedy=answer.get("remedy") or None)
    return int(answer["done"])
