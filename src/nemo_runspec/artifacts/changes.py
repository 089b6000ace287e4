"""Changes of a store where its folder is: data added from outside, tags, versions removed. Python 3.6.

On another machine they are made by the same code: a program that is asked with JSON and answers with JSON.
"""

import getpass
import json
import os
import re
import shutil
import socket
import sys
import time

from nemo_runspec.artifacts import versions
from nemo_runspec.artifacts.content import measured

MYPY = False
if MYPY:
    from typing import Any, Dict, Iterator, Tuple

NUMBERED = re.compile(r"v?[0-9]+$")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class RefusedChange(Exception):
    """A change that is not made. `remedy`: what to do instead."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


def change(asked: "Dict[str, Any]") -> "Dict[str, Any]":
    """Makes one change; what came of it.

    Args:
        asked: `action`, `add`, `tag` or `remove`, and the arguments of that function.
    """
    words = dict(asked)
    name = words.pop("action")
    words["root"] = os.path.expandvars(words["root"])
    try:
        return {"done": add(**words) if name == "add" else tag(**words) if name == "tag" else remove(**words)}
    except RefusedChange as refused:
        return {"refused": refused.what, "remedy": refused.remedy}
    except OSError as error:
        return {"refused": "the store cannot be changed: %s" % (error.strerror or error), "where": error.filename}


def main() -> None:
    """Reads what is asked from the standard input, and prints the answer."""
    sys.stdout.write(json.dumps(change(json.loads(sys.stdin.read()))))


def add(root: str, name: str, path: str, type: str, note: str) -> int:
    """Registers data from outside as a version of an artifact; its number. Nothing is copied or moved."""
    check_word(name, "the name of an artifact")
    if not os.path.isabs(path) or not os.path.exists(path):
        raise RefusedChange("there is nothing at %s" % path, "name a file or a folder")
    folder = "%s/%s" % (root, name)
    inside = os.path.dirname(path) == folder and not os.path.islink(path)
    manifest: "Dict[str, Any]" = {
        "name": name,
        "type": type,
        "path": os.path.basename(path) if inside else path,
        "inputs": [],
    }
    manifest["producer"] = {"user": getpass.getuser(), "host": socket.gethostname()}
    manifest.update(measured(path))
    if note:
        manifest["note"] = note
    os.makedirs(folder, exist_ok=True)
    number = versions.add(folder, manifest)
    versions.publish(folder, number, str(manifest["path"]))
    return number


def tag(root: str, name: str, number: int, word: str) -> int:
    """Lets a word lead to a version, and to no other one of the artifact any more."""
    check_word(word, "a tag")
    folder = "%s/%s" % (root, name)
    taken = os.path.lexists(folder + "/" + word) and not os.path.islink(folder + "/" + word)
    if word == versions.LATEST or NUMBERED.match(word) or taken:
        why = "the name of a job there" if taken else "what versions are called by themselves"
        raise RefusedChange("'%s' cannot be a tag: it is %s" % (word, why), "choose another word, such as gold")
    versions.link(folder, word, _manifest(folder, number)["path"])
    return number


def remove(root: str, name: str, number: int, data: bool) -> int:
    """Takes a version away; its number is not given again. With `data` its data go, where they are the store's."""
    folder = "%s/%s" % (root, name)
    place = folder + "/" + versions.FOLDER
    path = str(_manifest(folder, number)["path"])
    if data and (path.startswith("/") or "/" in path or path.startswith(".")):
        raise RefusedChange(
            "the data of %s:v%d are not the store's own: %s" % (name, number, path),
            "without --data the version alone is removed; what lies elsewhere, remove by hand",
        )
    removed = {"name": name, "version": number, "removed": time.time(), "schema": versions.SCHEMA}
    versions.replace(place, number, removed)
    others = [found for found in _all(place) if not found.get("removed")]
    shared = any(found.get("path") == path for found in others)
    for link, target in list(_links(folder)):
        if link == "v%d" % number or (target == path and not shared):
            _lead_elsewhere(folder, link)
    if data and not shared:
        _remove_data(folder + "/" + path)
    return number


def _lead_elsewhere(folder: str, link: str) -> None:
    if link == versions.LATEST:
        versions.lead_latest(folder)
        return
    try:
        os.unlink(folder + "/" + link)
    except FileNotFoundError:
        pass  # somebody else removes at the same time


def _manifest(folder: str, number: int) -> "Dict[str, Any]":
    found = versions.read(folder + "/" + versions.FOLDER, number)
    if "path" not in found:
        raise RefusedChange("there is no version %d in %s any more" % (number, folder))
    return found


def _all(place: str) -> "Iterator[Dict[str, Any]]":
    for name in os.listdir(place):
        number = versions.number_of(name)
        found = versions.read(place, number) if number else {}
        if found:
            yield found


def _links(folder: str) -> "Iterator[Tuple[str, str]]":
    for name in os.listdir(folder):
        if os.path.islink(folder + "/" + name):
            yield name, os.readlink(folder + "/" + name)


def check_word(word: str, what: str) -> None:
    """Raises `RefusedChange` for what can be no part of a reference."""
    found = _WORD.match(word)
    if found is None or found.end() != len(word):
        raise RefusedChange(
            "'%s' cannot be %s" % (word, what), "letters, digits, '.', '_' and '-', a letter or digit first"
        )


def _remove_data(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
