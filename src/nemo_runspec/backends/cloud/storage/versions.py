"""Versions of artifacts in a bucket. By the standard library of Python 3.6 and newer: it can travel with jobs.

    <root>/<artifact>/<data>/...                the data
    <root>/.versions/<artifact>/v<N>.json       what version N is, made only where there is none (If-None-Match)
    <root>/.versions/<artifact>/tags/<tag>      the number that a tag leads to
    <root>/.versions/<artifact>/config/<digest> the configuration that a version was made with

The newest version is that of the highest number. What was uploaded without a manifest is no version.
"""

import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterator, Sequence  # noqa: UP035  (Python 3.6)

from nemo_runspec.artifacts.changes import NUMBERED, RefusedChange, check_word
from nemo_runspec.artifacts.content import files_below
from nemo_runspec.artifacts.versions import FOLDER, LATEST, SCHEMA, number_of
from nemo_runspec.backends.cloud.storage.s3 import S3, split

_AT_ONCE = 16
_NEWEST = 64
"""Versions among which one is looked for that may have been registered before."""


class BucketVersions:
    """The versions below a URL. All methods raise `S3Error`.

    Args:
        url: `s3://bucket/prefix`.
    """

    def __init__(self, s3: S3, url: str) -> None:
        self._s3 = s3
        self.url = url.rstrip("/")
        self._bucket, prefix = split(self.url)
        self._top = prefix.strip("/") + "/" if prefix.strip("/") else ""

    def look(self, names: "Sequence[str]" = ()) -> "tuple[dict[str, dict[str, bytes]], dict[str, dict[str, str]]]":
        """Manifests by artifact and file, and paths by artifact and tag, `latest` among these."""
        found = [key for name in names or ("",) for key in self._keys(name)]
        wanted = [key for key in found if number_of(key[2]) or key[2].startswith("tags/")]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            texts = list(pool.map(lambda key: self._s3.get(self._bucket, key[0]), wanted))
        manifests: dict[str, dict[str, bytes]] = {}
        tags: dict[str, dict[str, bytes]] = {}
        for (_, name, rest), text in zip(wanted, texts):  # noqa: B905  (Python 3.6)
            kind = tags if rest.startswith("tags/") else manifests
            kind.setdefault(name, {})[rest[len("tags/") :] if kind is tags else rest] = text
        return manifests, {name: _links(each, tags.get(name, {})) for name, each in manifests.items()}

    def config(self, name: str, digest: str) -> bytes:
        """A configuration."""
        return self._s3.get(self._bucket, self._key(name, "config/" + digest))

    def add(self, name: str, path: str, manifest: "dict[str, Any]", config: bytes = b"") -> int:
        """Uploads data, then registers them under a number that only this version has; that.

        What was registered before, and nobody heard the answer, is found again.

        Args:
            path: of a file or folder here.
            manifest: `path` in it is the name that the data get.
        """
        before = self._number_of(name, str(manifest["path"]))
        if before:
            return before
        top = "{}{}/{}".format(self._top, name, manifest["path"])
        for below, file in files_below(path):
            if not Path(file).is_symlink():
                with Path(file).open("rb") as stream:
                    self._s3.upload(self._bucket, top + "/" + below if below else top, stream, at_once=4)
        known = dict(manifest, schema=SCHEMA, created=time.time(), name=name)
        if config:
            known["config"] = hashlib.sha256(config).hexdigest()
            self._s3.put(self._bucket, self._key(name, "config/" + known["config"]), config)
        number = max([0] + [number_of(rest) for _, _, rest in self._keys(name)]) + 1
        while not self._put_new(name, number, dict(known, version=number)):
            number += 1
        return number

    def tag(self, name: str, number: int, word: str) -> int:
        """Lets a word lead to a version. Raises `RefusedChange`."""
        check_word(word, "a tag")
        if word == LATEST or NUMBERED.match(word):
            what = f"'{word}' cannot be a tag: it is what versions are called by themselves"
            raise RefusedChange(what, "choose another word, such as gold")
        self._s3.put(self._bucket, self._key(name, "tags/" + word), str(number).encode())
        return number

    def remove(self, name: str, number: int, data: bool) -> int:
        """Takes a version away, its number stays taken; its data too where `data` says so. Raises `RefusedChange`."""
        key = self._key(name, f"v{number}.json")
        path = _path_in(self._s3.get(self._bucket, key))
        if not path:
            raise RefusedChange(f"there is no version {number} of {name} any more")
        removed = {"name": name, "version": number, "removed": time.time(), "schema": SCHEMA}
        self._s3.put(self._bucket, key, json.dumps(removed).encode())
        for tag, _, rest in self._keys(name):
            if rest.startswith("tags/") and self._s3.get(self._bucket, tag) == str(number).encode():
                self._s3.delete(self._bucket, tag)
        if data and "/" not in path:
            top = f"{self._top}{name}/{path}"
            for each in list(self._s3.listing(self._bucket, top)):
                if each.key == top or each.key.startswith(top + "/"):
                    self._s3.delete(self._bucket, each.key)
        return number

    def _number_of(self, name: str, path: str) -> int:
        """The version whose data have that name, of the newest ones; 0 for none."""
        found = sorted((number_of(rest) for _, _, rest in self._keys(name) if number_of(rest)), reverse=True)[:_NEWEST]

        def has(number: int) -> bool:
            text = self._s3.get(self._bucket, self._key(name, f"v{number}.json"))
            return _path_in(text) == path

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return next((number for number, same in zip(found, pool.map(has, found)) if same), 0)  # noqa: B905

    def _put_new(self, name: str, number: int, manifest: "dict[str, Any]") -> bool:
        text = json.dumps(manifest, sort_keys=True).encode()
        return self._s3.put_new(self._bucket, self._key(name, f"v{number}.json"), text)

    def _keys(self, name: str) -> "Iterator[tuple[str, str, str]]":
        """Keys of all that is known of an artifact, or of all: whole, the artifact, and the rest."""
        prefix = f"{self._top}{FOLDER}/"
        for each in self._s3.listing(self._bucket, prefix + name + "/" if name else prefix):
            artifact, _, rest = each.key[len(prefix) :].partition("/")
            yield each.key, artifact, rest

    def _key(self, name: str, rest: str) -> str:
        return f"{self._top}{FOLDER}/{name}/{rest}"


def _links(manifests: "dict[str, bytes]", tags: "dict[str, bytes]") -> "dict[str, str]":
    paths = {}
    for file, text in manifests.items():
        path = _path_in(text)
        if path:
            paths[number_of(file)] = path
    found = {tag: paths[int(text)] for tag, text in tags.items() if text.isdigit() and int(text) in paths}
    return dict(found, **{LATEST: paths[max(paths)]}) if paths else found


def _path_in(text: bytes) -> str:
    """What a manifest says of its data, '' for one that is damaged or was removed."""
    try:
        return str(json.loads(text.decode()).get("path") or "")
    except (ValueError, AttributeError):
        return ""
