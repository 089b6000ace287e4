"""Records of a job's folder: JSON objects, one a file, written whole or not at all.

`nemotron` reads them here or through a login node (`script/markers.py`). What root makes in a container is given to the
owner of the job's folder, who reads it on the host.
"""

import errno
import os

from nemo_runspec.jobside import values

MYPY = False
if MYPY:
    from typing import Any, Dict, Iterable

    Record = Dict[str, Any]

_ROOM = 8192
"""Bytes that are kept for a last record, on a disk that the job fills."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Folder:
    """A folder that only the job's owner reads.

    Args:
        path: of the folder; `make` makes it.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def file(self, name: str) -> str:
        """The path of a file in it."""
        return self.path + "/" + name

    def make(self) -> None:
        """Makes the folder, and none around it: a job that is gone stays gone. Raises `OSError`."""
        try:
            os.mkdir(self.path, 0o700)
        except FileExistsError:
            if not os.path.isdir(self.path):
                raise

    def write(self, name: str, record: "Record", room: str = "") -> None:
        """Writes a record. Raises `OSError`; nothing has changed then.

        Args:
            room: a file beside it that becomes this record where the disk is full, see `keep_room`.
        """
        text = values.write(record) + "\n"
        try:
            self.write_text(name, text)
        except OSError as error:
            if error.errno not in _FULL or not room:
                raise
            self._write_into(room, name, text)

    def write_text(self, name: str, text: str = "") -> None:
        """Writes a text, whole or not at all. Raises `OSError`."""
        draft = "%s.%d.tmp" % (self.file(name), os.getpid())
        try:
            self._put(draft, os.O_CREAT | os.O_TRUNC, name, text)
        except OSError:
            remove(draft)
            raise

    def _write_into(self, room: str, name: str, text: str) -> None:
        """As `write_text`, into the blocks that a file has: what it gave back, others could take first."""
        try:
            self._put(room, 0, name, text)
        except OSError:  # of a file system that writes nothing where it stood before
            remove(room)
            self.write_text(name, text)

    def _put(self, draft: str, flags: int, name: str, text: str) -> None:
        with open(os.open(draft, os.O_WRONLY | os.O_CLOEXEC | flags, 0o600), "wb") as stream:
            stream.write(text.encode("utf-8", "surrogateescape"))
            stream.truncate()
        self.hand_over(draft)
        os.replace(draft, self.file(name))

    def note(self, name: str, text: str = "") -> bool:
        """As `write_text`; whether it could be. For what a job can do without."""
        try:
            self.write_text(name, text)
        except OSError:
            return False
        return True

    def read(self, name: str) -> "Record":
        """A record, empty where there is none, or none that is whole."""
        try:
            found = values.read(self.text(name))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def text(self, name: str) -> str:
        """A file's text, empty where there is none."""
        try:
            with open(self.file(name), "rb") as stream:
                return stream.read().decode("utf-8", "surrogateescape")
        except OSError:
            return ""

    def has(self, name: str) -> bool:
        """True if there is such a file."""
        return os.path.exists(self.file(name))

    def names(self) -> "Iterable[str]":
        """The names in it without drafts, none where it is gone. Reading it makes a network file system look again."""
        try:
            return [name for name in os.listdir(self.path) if not name.endswith(".tmp")]
        except OSError:
            return ()

    def hand_over(self, *paths: str) -> None:
        """Gives what root has made to the folder's owner."""
        if os.geteuid() != 0:
            return
        try:
            owner = os.stat(self.path)
            for path in paths:
                os.chown(path, owner.st_uid, owner.st_gid)
        except OSError:
            return  # a file server may refuse it

    def keep_room(self, name: str) -> None:
        """Keeps room for a last record; `remove` gives it back. Random, as file systems compress."""
        self.note(name, os.urandom(_ROOM // 2).hex())


def remove(file: str) -> bool:
    """Removes a file; whether it is not there now."""
    try:
        os.unlink(file)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
