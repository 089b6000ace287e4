"""Versions of artifacts, as a job reads and makes them; what root has made is given to its owner."""

import os

from nemo_runspec.jobside.records import Folder

MYPY = False
if MYPY:
    from typing import Dict, Iterator, List, Sequence

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
    lines = status.text("input-" + name).splitlines()
    return next((line[len("path=") :] for line in lines if line.startswith("path=")), "")


def register(versions: "Sequence[str]") -> "List[str]":
    """Makes versions that are there the newest of their artifact; a line for each that could not be.

    `latest` beside each is swapped for another link in one step: a reader always finds one, and a job that is killed
    has changed nothing.
    """
    said = []
    for path in versions:
        folder, _, name = path.rpartition("/")
        if not os.path.isdir(path):
            continue
        draft = "%s/.latest.%s" % (folder, name)
        try:
            if os.path.lexists(draft):
                os.unlink(draft)
            os.symlink(name, draft)
            os.replace(draft, folder + "/latest")
        except OSError as error:
            said.append("%s/latest could not be set to %s: %s" % (folder, name, error.strerror))
    return said


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
    except OSError:
        return ""
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
