"""The folder of one node's Ray: its sockets, its session and its token; short, private, and gone afterwards.

A socket's path holds 107 bytes (man 7 unix), and Ray adds some seventy of its own to that of its folder.
"""

import os

from nemo_runspec.jobside.barriers import Failure
from nemo_runspec.lines import text_lines

MYPY = False
if MYPY:
    from typing import Iterator, List, Tuple

_PLACES = ("/tmp", "/dev/shm", "/var/tmp")
_MOST = 64 << 20
"""Bytes of a node's logs that are kept with the job."""
_PIECE = 1 << 20
TOKEN = "token"


class RayHome:
    """The folder, and `ray` in it, which is Ray's own. Raises `Failure` where none can be made."""

    def __init__(self) -> None:
        self.path = _made()
        self.ray = self.path + "/r"  # Ray opens it to everybody

    def file(self, name: str) -> str:
        """The path of a file in it."""
        return self.path + "/" + name

    def put(self, name: str, text: str) -> str:
        """Writes a file that nobody else reads; its path."""
        path = self.file(name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as stream:
            stream.write(text)
        return path

    def last_lines(self, name: str, count: int) -> "List[str]":
        """The last lines of a file that say something: not empty ones, nor what Python puts below a place in a line."""
        try:
            with open(self.file(name), "rb") as stream:
                lines = text_lines(stream.read()[-_PIECE:].decode("utf-8", "replace"))
        except OSError:
            return []
        return [line.strip() for line in lines if line.strip("^~ \t\r\n")][-count:]

    def first_line(self, name: str) -> str:
        """The first line of one of Ray's logs, '' for none."""
        for _, path, found in self._logs():
            if found == name:
                with open(path, "rb") as stream:
                    return stream.readline(_PIECE).decode("utf-8", "replace").strip()
        return ""

    def keep_logs(self, target: str, hidden: "List[bytes]") -> None:
        """Copies Ray's logs of this node, the newest first and 64 MB at most. A disk that is full costs the rest.

        Args:
            hidden: the values of secrets, which are not in the copies.
        """
        from nemo_runspec.forms import hidden_forms

        forms, left = hidden_forms([value for value in hidden if value]), _MOST
        try:
            os.makedirs(target, 0o700)
        except FileExistsError:
            pass
        except OSError:
            return
        for _, path, name in sorted(self._logs(), reverse=True):
            try:
                left -= _copy(path, target + "/" + name, forms, left)
            except OSError:
                continue
            if left <= 0:
                return

    def _logs(self) -> "Iterator[Tuple[float, str, str]]":
        """When each was written last, its path, and its name in the copy: of a folder below it, with that before it."""
        yield 0.0, self.file("start.log"), "start.log"
        for session in _listed(self.ray):
            top = "%s/%s/logs" % (self.ray, session)
            if not session.startswith("session_") or os.path.islink(self.ray + "/" + session):
                continue
            for folder, _, names in os.walk(top):
                for name in names:
                    path = folder + "/" + name
                    if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path):
                        yield os.path.getmtime(path), path, path[len(top) + 1 :].replace("/", ".")

    def remove(self) -> None:
        """Removes it with all that is in it."""
        remove_tree(self.path)


def remove_tree(top: str) -> None:
    """Removes a folder with all that is in it; what cannot be removed stays."""
    for folder, folders, names in os.walk(top, topdown=False):
        for name in (*names, *folders):
            path = folder + "/" + name
            try:
                (os.unlink if name in names or os.path.islink(path) else os.rmdir)(path)
            except OSError:
                pass
    try:
        os.rmdir(top)
    except OSError:
        pass


def _made() -> str:
    why = ""
    for place in _PLACES:
        path = "%s/nemotron-ray-%s" % (place, os.urandom(4).hex())
        try:
            os.mkdir(path, 0o700)
            return path
        except OSError as error:
            why = why or "%s: %s" % (place, error.strerror or error)
    raise Failure("Ray: no folder can be made for its sockets (%s)" % why, 1, "ray")


def _copy(path: str, target: str, forms: "List[bytes]", most: int) -> int:
    """The last bytes of a file, as many as may be; how many those are."""
    from nemo_runspec.forms import hide

    with open(path, "rb") as source:
        size = os.fstat(source.fileno()).st_size
        source.seek(max(0, size - most))
        content = source.read(most)
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as copy:
        copy.write(hide(content, forms) if forms else content)
    return len(content)


def _listed(folder: str) -> "List[str]":
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
