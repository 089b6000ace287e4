"""Versions of artifacts, as a job reads them, and the bucket they may be in; what root has made goes to its owner."""

import os
import sys

from nemo_runspec.jobside import secrets
from nemo_runspec.jobside.records import Folder
from nemo_runspec.lines import text_lines

MYPY = False
if MYPY:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

_LOOK = 0.5
"""Seconds between two looks at whether a transfer is to go on."""

_STORE = "store.py"
"""In a job's directory, where its artifacts are in a bucket (`backends/cloud/storage/store_program.py`)."""

_KEYS = ("ACCESS_KEY", "SECRET_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""Their names (`s3_names`)."""

_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def find_inputs(status: Folder, inputs: "Dict[str, str]", config: str) -> None:
    """Notes which version each input's `latest` is now, and names it in the configuration in the place of `latest`.

    Found out once, when the job starts for the first time; this version is read from then on, whatever becomes the
    newest meanwhile.
    """
    for name, latest in inputs.items():
        record = "input-" + name
        version = _version(latest)
        if status.has(record) or not version:
            continue
        try:
            _rename_in(config, latest, version)
            status.write_text(record, "name=%s\npath=%s\n" % (name, version))
        except OSError:
            continue


def named(status: Folder, inputs: "Dict[str, str]", value: str) -> str:
    """The value of a variable, with the versions that were found in the place of their `latest`."""
    for name, latest in inputs.items():
        version = input_path(status, name)
        if version:
            value = version if value == latest else value.replace(latest + "/", version + "/")
    return value


def input_path(status: Folder, name: str) -> str:
    """The version that was found for an input, '' for none."""
    lines = text_lines(status.text("input-" + name))
    return next((line[len("path=") :] for line in lines if line.startswith("path=")), "")


def keys_among(root: str) -> "Dict[str, str]":
    """The secrets that artifacts in a bucket take: the file of secrets is gone when they are registered."""
    if not os.path.exists(root + "/" + _STORE):
        return {}
    given = secrets.read(root + "/secrets.env")
    return {name: given[name] for name in _KEYS if name in given}


def fetch(root: str, environment: "Dict[str, str]", heed: "Callable[[], object]" = lambda: None) -> str:
    """Brings the versions that a job reads from a bucket, where they are in one; why that cannot be, '' where it can.

    Args:
        environment: with the keys for it.
        heed: called again and again meanwhile; what it raises ends the transfer.
    """
    if not os.path.exists(root + "/" + _STORE):
        return ""
    code, said = ask_bucket(root, ["get"], environment, heed)
    return "" if code == 0 else said


def ask_bucket(
    root: str, words: "List[str]", environment: "Dict[str, str]", heed: "Callable[[], object]", told: str = ""
) -> "Tuple[int, str]":
    """Asks a bucket, by a program of its own; its exit code, and what it has said or why it has failed."""
    import subprocess

    child = subprocess.Popen(
        [sys.executable, "-I", "-S", root + "/" + _STORE, *words],
        cwd=root,
        env=dict(os.environ, **environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        out, errors = _answer(child, told.encode("utf-8", "surrogateescape"), heed)
    except BaseException:
        child.kill()
        child.wait()
        raise
    said = text_lines((errors if child.returncode else out).decode("utf-8", "replace").strip())
    return child.returncode, said[-1] if said else "exit code %d" % child.returncode


def _answer(child: "Any", told: bytes, heed: "Callable[[], object]") -> "Tuple[bytes, bytes]":
    from subprocess import TimeoutExpired

    rest: "Optional[bytes]" = told
    while True:
        heed()
        try:
            out, errors = child.communicate(rest, timeout=_LOOK)
            return out, errors
        except TimeoutExpired:
            rest = None  # it goes on with what it was given


def give_away(owner: str, folders: "Sequence[str]", since: float) -> bool:
    """Gives what root has made in these folders since a time to `owner` (`UID:GID`); whether all of it could be.

    By the time of the inode's change: a copied file keeps the time of its content.
    """
    user, _, group = owner.partition(":")
    done = True
    for folder in folders:
        for path in _below(folder):
            try:
                found = os.lstat(path)
                if found.st_uid == 0 and found.st_ctime >= since:
                    os.lchown(path, int(user), int(group or -1))
            except FileNotFoundError:
                continue
            except (OSError, ValueError):
                done = False
    return done


def _below(folder: str) -> "Iterator[str]":
    """Every path below a folder of the same file system; no link is followed."""
    try:
        device = os.lstat(folder).st_dev
    except OSError:
        return
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if _is_on(parent + "/" + name, device)]
        for name in folders + files:
            yield parent + "/" + name


def _is_on(path: str, device: int) -> bool:
    try:
        return os.lstat(path).st_dev == device
    except OSError:
        return False


def _version(latest: str) -> str:
    """The version that `latest` is, '' where nothing was ever registered there."""
    try:
        name = os.readlink(latest)
    except OSError:  # a version by the name of its job is no link
        return latest if os.path.isdir(latest) else ""
    if name.startswith("/"):  # data from outside, which were added
        return name if set(name) <= _ALLOWED | {"/"} else ""
    return latest.rpartition("/")[0] + "/" + name if name and set(name) <= _ALLOWED else ""


def _rename_in(file: str, path: str, other: str) -> None:
    """Replaces a whole path, and what is below it, in a text."""
    folder = Folder(file.rpartition("/")[0])
    name = file.rpartition("/")[2]
    if not folder.has(name):
        return
    text, found = folder.text(name), []
    first, *rest = text.split(path)
    for part in rest:
        found.append(path if part[:1] in _ALLOWED and part else other)
        found.append(part)
    folder.write_text(name, first + "".join(found))
