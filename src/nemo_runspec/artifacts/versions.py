"""Versions of an artifact as files: a manifest each, and links by which it is read. Python 3.6: travels with jobs.

    <root>/<artifact>/<job>                         the data, where the job wrote them
    <root>/<artifact>/.versions/v<N>.json           what version N is; written whole, once, under a number of its own
    <root>/<artifact>/.versions/config/<digest>     the configuration that it was made with
    <root>/<artifact>/v<N>, latest, <tag>           links to the data

A version is what has a manifest. Its number is taken by the manifest's own name, which only one can have; links follow,
and are made again by the next who registers where somebody was killed before.
"""

import errno
import hashlib
import json
import os
import time

MYPY = False
if MYPY:
    from typing import Any, Dict

    Manifest = Dict[str, Any]

SCHEMA = 1
FOLDER = ".versions"
CONFIG = "config"
LATEST = "latest"
ABOUT = "artifacts.json"
"""In a job's directory: what is known of its artifacts before it starts (`artifacts/about.py`)."""

_HEALED = 20
"""Versions, the newest ones, whose links are looked at when another one is registered."""


def add(folder: str, manifest: "Manifest", config: str = "") -> int:
    """Registers a version of the artifact whose folder this is; its number. Links are made by `publish`.

    Args:
        manifest: without `schema`, `version` and `created`. `path`: relative to the folder, or whole.
        config: the text of the configuration; '' for none.

    Raises:
        OSError: it cannot be written; nothing is registered then.
    """
    place = folder + "/" + FOLDER
    os.makedirs(place, exist_ok=True)
    known = dict(manifest, schema=SCHEMA, created=time.time())
    if config:
        known["config"] = _keep_config(place, config)
    number = highest(place) + 1
    while not _write_new(place, number, dict(known, version=number)):
        number += 1
    return number


def publish(folder: str, number: int, path: str) -> None:
    """Makes a version's links, and those of versions before that have none. `latest` leads to the newest one then.

    Raises:
        OSError: one of them cannot be made.
    """
    for before in range(max(1, number - _HEALED), number):
        if not os.path.lexists("%s/v%d" % (folder, before)):
            known = str(read(folder + "/" + FOLDER, before).get("path", ""))
            if known:
                link(folder, "v%d" % before, known)
    link(folder, "v%d" % number, path)
    lead_latest(folder)


def lead_latest(folder: str) -> None:
    """Leads `latest` to the version with the highest number, whoever else adds or removes one; away with it for none.

    Raises:
        OSError: it cannot be made.
    """
    known = None
    while True:
        newest = _newest(folder + "/" + FOLDER)
        if newest == known:
            return
        known = newest
        if newest:
            link(folder, LATEST, newest)
        elif os.path.islink(folder + "/" + LATEST):
            _forget(folder + "/" + LATEST)


def _newest(place: str) -> str:
    """The path of the newest version that was not removed, '' for none."""
    numbers = sorted(filter(None, map(number_of, os.listdir(place))), reverse=True)
    return next((path for path in (str(read(place, number).get("path", "")) for number in numbers) if path), "")


def highest(place: str) -> int:
    """The largest number that was ever given, 0 for none."""
    return max([number_of(name) for name in os.listdir(place)] or [0])


def number_of(name: str) -> int:
    """The number in the name of a manifest, `v12.json`; 0 for other names."""
    text = name[1:-5] if name.startswith("v") and name.endswith(".json") else ""
    return int(text) if text.isdigit() else 0


def read(place: str, number: int) -> "Manifest":
    """A manifest; empty where there is none, or none that is whole."""
    try:
        with open("%s/v%d.json" % (place, number), "rb") as stream:
            found = json.loads(stream.read().decode("utf-8", "surrogateescape"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def of_path(path: str) -> "Manifest":
    """The newest manifest of the version that lies at a path of the store, or that one of its links leads to."""
    folder, _, name = path.rstrip("/").rpartition("/")
    place = folder + "/" + FOLDER
    try:
        target = os.readlink(path) if os.path.islink(path) else name
        numbers = sorted(filter(None, map(number_of, os.listdir(place))), reverse=True)
    except OSError:
        return {}
    for number in numbers:
        found = read(place, number)
        if found.get("path") in (target, path):
            return found
    return {}


def link(folder: str, name: str, target: str) -> None:
    """Makes a link, or leads the one that is there elsewhere, in one step. Raises `OSError`."""
    draft = "%s/.%s.%s" % (folder, name, target.rpartition("/")[2])
    _forget(draft)  # of one that was killed
    try:
        _link_by(draft, folder + "/" + name, target)
    except (FileExistsError, FileNotFoundError):  # another one makes the same link at once
        _link_by("%s.%s" % (draft, os.urandom(6).hex()), folder + "/" + name, target)


def _link_by(draft: str, path: str, target: str) -> None:
    os.symlink(target, draft)
    try:
        os.replace(draft, path)
    except OSError:
        _forget(draft)
        raise


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def replace(place: str, number: int, manifest: "Manifest") -> None:
    """Writes another text in the place of a manifest, whole or not at all. Raises `OSError`."""
    draft = _draft(place, manifest)
    os.replace(draft, "%s/v%d.json" % (place, number))


def _keep_config(place: str, text: str) -> str:
    """Keeps a configuration under its digest; that."""
    data = text.encode("utf-8", "surrogateescape")
    digest = hashlib.sha256(data).hexdigest()
    os.makedirs(place + "/" + CONFIG, exist_ok=True)
    file = "%s/%s/%s" % (place, CONFIG, digest)
    if not os.path.exists(file):
        os.replace(_drafted(place, data), file)
    return digest


def _write_new(place: str, number: int, manifest: "Manifest") -> bool:
    """Writes a manifest under a number; False where another one has it."""
    draft = _draft(place, manifest)
    file = "%s/v%d.json" % (place, number)
    try:
        os.link(draft, file)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES):
            raise
        return _write_exclusively(draft, file)  # a file system without hard links
    finally:
        os.unlink(draft)
    return True


def _write_exclusively(draft: str, file: str) -> bool:
    """Killed in the middle it leaves a manifest that is not whole, which nobody believes."""
    with open(draft, "rb") as stream:
        data = stream.read()
    try:
        with open(file, "xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
    except FileExistsError:
        return False
    return True


def _draft(place: str, manifest: "Manifest") -> str:
    return _drafted(place, (json.dumps(manifest, sort_keys=True) + "\n").encode())


def _drafted(place: str, data: bytes) -> str:
    """A file of its own with these bytes, on the disk."""
    file = "%s/.%d-%s" % (place, os.getpid(), os.urandom(6).hex())
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:
        os.unlink(file)
        raise
    return file
