"""The versions of a store: listed by one look at it, found by a reference, and what was made from what.

A reference is `NAME`, `NAME:latest`, `NAME:3`, `NAME:v3`, `NAME:TAG` or `NAME:JOB`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

from nemo_runspec.artifacts.versions import LATEST, number_of
from nemo_runspec.errors import UserError, did_you_mean

Manifest = dict[str, Any]

UNNUMBERED = -1
"""The number of a version of which nothing is known."""


@dataclass(frozen=True, slots=True)
class StoreListing:
    """A store as it was at one moment.

    Args:
        manifests: artifact → file name → text.
        links: artifact → name → what it leads to, without those of numbers.
        versions: of a store that keeps no such files, artifact → its versions, newest first.
    """

    manifests: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    versions: Mapping[str, Sequence[Version]] = field(default_factory=dict)


class ArtifactStorage(Protocol):
    """Where a store lies. `name`: for a person; `root`: its folder or URL, as the machine that has it names it."""

    name: str
    root: str

    def look(self, names: Sequence[str] = ()) -> StoreListing:
        """All manifests and links, of these artifacts alone where some are named. One question.

        Raises:
            UserError: it cannot be read.
        """

    def config(self, artifact: str, digest: str) -> str:
        """The text of a configuration that versions were made with; '' where it is gone."""

    def has(self, path: str) -> bool | None:
        """True if data are there; None where that is not looked up."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an artifact.

    Args:
        number: `UNNUMBERED` for what an earlier release, or a job without Python, has made the latest: nothing is
            known of it.
        path: where its data lie, whole.
        digest: as `content` has it, '' where it is not known.
        created: seconds since 1970.
        producer: of a job `job`, `recipe`, `config`, `profile`, `overrides` and `code`;
            of what was added from outside `user` and `host`.
        inputs: what it was made from: `input`, `path` and, of a version, `name` and `version`.
        tags: names that lead to it.
        config: the digest of its configuration.
        latest: whether it is.
    """

    name: str
    number: int
    path: str
    type: str = ""
    digest: str = ""
    size: int | None = None
    files: int | None = None
    created: float | None = None
    producer: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Mapping[str, Any], ...] = ()
    tags: tuple[str, ...] = ()
    latest: bool = False
    note: str = ""
    config: str = ""

    @property
    def reference(self) -> str:
        """Its name and number, by which it can be asked for again."""
        return f"{self.name}:v{self.number}" if self.is_numbered else f"{self.name}:{LATEST}"

    @property
    def is_numbered(self) -> bool:
        """True if it has a number, by which it can be changed."""
        return self.number != UNNUMBERED

    @property
    def job(self) -> str:
        """The job that made it, '' for none."""
        return str(self.producer.get("job", ""))


def parse_reference(text: str) -> tuple[str, str]:
    """Name and version of a reference; the version is '' where only a name is given.

    Raises:
        UserError: it is none.
    """
    name, colon, version = text.partition(":")
    if not name or "/" in text or (colon and not version) or ":" in version:
        raise UserError(
            f"'{text}' names no artifact", remedy="NAME, or NAME:VERSION with a number, latest, a tag or a job's name"
        )
    return name, version


class Registry:
    """The versions of one store. It is looked at once, when something is first asked.

    Args:
        names: look at these artifacts alone.
    """

    def __init__(self, storage: ArtifactStorage, names: Sequence[str] = ()) -> None:
        self.storage = storage
        self._only = tuple(names)
        self._newest: dict[str, Version | None] = {}
        self._versions: dict[str, list[Version]] = {}
        self._damaged: dict[str, None] = {}

    @property
    def problems(self) -> list[str]:
        """What was read and is damaged, in a line each."""
        return list(self._damaged)

    def names(self) -> list[str]:
        """The artifacts that have a version, sorted."""
        known = {*self._listing.manifests, *self._listing.links, *self._listing.versions}
        return sorted(name for name in known if self.newest(name) is not None)

    def newest(self, name: str) -> Version | None:
        """The version of an artifact that was registered last; None where there is none. The others stay unread."""
        if name not in self._newest:
            self._newest[name] = next(iter(self._of(name, first=True)), None)
        return self._newest[name]

    def versions(self, name: str) -> list[Version]:
        """The versions of an artifact, newest first. Empty for an artifact there is not."""
        if name not in self._versions:
            self._versions[name] = self._of(name)
        return self._versions[name]

    def everything(self) -> list[Version]:
        """All versions, by name, newest first."""
        return [version for name in self.names() for version in self.versions(name)]

    def get(self, reference: str) -> Version:
        """The version that a reference means.

        Raises:
            UserError: there is none, with a suggestion.
        """
        name, wanted = parse_reference(reference)
        found = self.versions(name)
        if not found:
            near = did_you_mean(name, Registry(self.storage).names() if self._only else self.names())
            raise UserError(
                f"there is no artifact '{name}' in {self.storage.name}",
                remedy=near or "nemotron artifacts list shows what there is",
            )
        chosen = next((each for each in found if _is_meant(each, wanted)), None)
        if chosen is None:
            known = [word for each in found for word in _words(each)]
            raise UserError(
                f"artifact '{name}' has no version '{wanted}'",
                remedy=did_you_mean(wanted, known) or f"it has {', '.join(known[:8])}{', …' if len(known) > 8 else ''}",
            )
        return chosen

    def by_path(self, path: str) -> Version | None:
        """The version whose data lie there, None for none."""
        return self._by_path.get(path.rstrip("/"))

    def source_of(self, known: Mapping[str, Any]) -> Version | None:
        """The version that an input of another one was, None where it was none or is gone."""
        number = known.get("version")
        return next((v for v in self.versions(str(known.get("name"))) if v.is_numbered and v.number == number), None)

    def made_from(self, version: Version) -> list[Version]:
        """The versions that have this one as an input."""
        return [other for other in self.everything() if any(_is(version, known) for known in other.inputs)]

    def config(self, version: Version) -> str:
        """The text of the configuration it was made with, '' where there is none."""
        return self.storage.config(version.name, version.config) if version.config else ""

    @cached_property
    def _by_path(self) -> dict[str, Version]:
        return {version.path: version for version in reversed(self.everything())}

    @cached_property
    def _listing(self) -> StoreListing:
        return self.storage.look(self._only)

    def _of(self, name: str, *, first: bool = False) -> list[Version]:
        """The versions of an artifact, newest first; `first`: that one alone."""
        if name in self._listing.versions:
            return list(self._listing.versions[name])
        texts, links = self._listing.manifests.get(name, {}), self._listing.links.get(name, {})
        folder = f"{self.storage.root.rstrip('/')}/{name}"
        words = _by_target(links)
        # Of several versions at one path, the newest has what leads there.
        found = islice(self._read(name, texts), 1 if first else None)
        known = [_version(name, folder, each, words.pop(str(each["path"]), ())) for each in found]
        latest = links.get(LATEST)
        if latest and latest in words and not (first and known):
            known.insert(0, Version(name, UNNUMBERED, _whole(folder, latest), latest=True, producer={"job": latest}))
        return known

    def _read(self, name: str, texts: Mapping[str, bytes]) -> Iterator[Manifest]:
        """The manifests of versions that there are, newest first."""
        for file in sorted(texts, key=number_of, reverse=True):
            found = _manifest(texts[file])
            if found is None:
                self._damaged[f"{name}:v{number_of(file)} is unknown: {file} is damaged"] = None
            elif found.get("removed") is None:
                yield found


def _manifest(text: bytes) -> Manifest | None:
    """A manifest, None for one that is damaged."""
    try:
        found = json.loads(text)
        if isinstance(found["version"], int) and (found.get("removed") is not None or isinstance(found["path"], str)):
            return dict(found)
    except (ValueError, KeyError, TypeError):
        pass
    return None


def _version(name: str, folder: str, found: Manifest, words: Sequence[str]) -> Version:
    return Version(
        name=name,
        number=found["version"],
        path=_whole(folder, found["path"]),
        type=str(found.get("type", "")),
        digest=str(found.get("digest", "")),
        size=found.get("size"),
        files=found.get("files"),
        created=found.get("created"),
        producer=found.get("producer") or {},
        inputs=tuple(found.get("inputs") or ()),
        tags=tuple(sorted(word for word in words if word != LATEST)),
        latest=LATEST in words,
        note=str(found.get("note", "")),
        config=str(found.get("config", "")),
    )


def _whole(folder: str, path: str) -> str:
    return path if path.startswith(("/", "s3://")) else f"{folder}/{path}"


def _by_target(links: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, target in links.items():
        found.setdefault(target, []).append(name)
    return found


def _is_meant(version: Version, wanted: str) -> bool:
    if wanted in ("", LATEST):
        return version.latest
    return (version.is_numbered and wanted == str(version.number)) or wanted in _words(version)


def _words(version: Version) -> Iterable[str]:
    """What may stand behind the colon."""
    words = [f"v{version.number}"] if version.is_numbered else [LATEST]
    return [*words, *version.tags, *([version.job] if version.job else [])]


def _is(version: Version, known: Mapping[str, Any]) -> bool:
    """True if an input of another version was this one."""
    if version.is_numbered and known.get("version") is not None:
        return (known.get("name"), known.get("version")) == (version.name, version.number)
    return known.get("path") == version.path
