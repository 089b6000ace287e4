"""Signs of life: every pod of several touches its file `alive.N` again and again.

At its end the file becomes `over.N.CODE`: a rename needs no room on a full disk. Clocks of machines are not compared.
"""

import os
import threading
import time

from nemo_runspec.jobside.records import Folder, remove

MYPY = False
if MYPY:
    from typing import Optional


class PodLife:
    """One pod's own file.

    Args:
        folder: where all pods look.
        index: which node this is.
        every: seconds between two signs.
    """

    def __init__(self, folder: Folder, index: int, every: float) -> None:
        self._folder = folder
        self._index = index
        self._every = every
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        """Lives from here on."""
        for name in self._folder.names():
            if name.startswith("over.%d." % self._index):
                remove(self._folder.file(name))
        self._folder.note("alive.%d" % self._index)
        self._thread.start()

    def end(self, code: int) -> None:
        """Nothing of this node runs any more, and all has been said."""
        self._ended = True
        over = "over.%d.%d" % (self._index, code)
        try:
            os.replace(self._folder.file("alive.%d" % self._index), self._folder.file(over))
        except OSError:
            self._folder.note(over)

    def _run(self) -> None:
        while True:
            time.sleep(self._every)  # the thread ends with its process
            if self._ended:
                return
            try:
                os.utime(self._folder.file("alive.%d" % self._index))
            except OSError:
                continue  # a file server that does not answer for a while


def last_sign(folder: Folder, index: int) -> "Optional[int]":
    """What changes with each sign of a node's life; None where there is none."""
    try:
        with open(folder.file("alive.%d" % index), "rb") as file:  # which makes a network file system look at it
            return os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return None


def has_begun(folder: Folder, index: int) -> bool:
    """True if a node lives or has lived in this life of the job."""
    return folder.has("alive.%d" % index) or exit_code_of(folder, index) is not None


def exit_code_of(folder: Folder, index: int) -> "Optional[int]":
    """The exit code of a pod that has ended; None for one that has not."""
    for name in folder.names():
        word, _, rest = name.partition(".")
        number, _, code = rest.partition(".")
        if word == "over" and number == str(index) and code.isdigit():
            return int(code)
    return None
