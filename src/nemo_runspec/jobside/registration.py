"""Registers what a job has made as versions of its artifacts, where it ran: once it has ended well, or later."""

import errno
import os
import sys
import time

from nemo_runspec.jobside import signals, values
from nemo_runspec.jobside.artifacts import ask_bucket, input_path
from nemo_runspec.jobside.exit_status import UNREGISTERED, Ended
from nemo_runspec.jobside.records import Folder
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from typing import Any, Dict, List, Optional, Sequence

REGISTRATION = "registration"
"""The code for it, of `REASONS` in script/markers.py."""

_PATIENCE = 120
_FIRST, _LONGEST = 0.5, 15.0
"""Seconds between two tries."""
_PASSING = frozenset({
    errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.ETIMEDOUT,
    errno.EREMOTEIO, errno.EHOSTDOWN, errno.ENOTCONN, errno.ENFILE, errno.EMFILE,
})  # fmt: skip
"""What may pass by itself. A bucket's program tries again itself."""


class JobPlace:
    """Where a job's artifacts are registered from.

    Args:
        root: the job's directory, '' for none.
        environment: with the keys for a bucket, where the store is one.
        moved: the folder of the store as the job names it and as it is named here, where that is not the same.
    """

    def __init__(
        self, root: str = "", environment: "Optional[Dict[str, str]]" = None, moved: "Sequence[str]" = ("", "")
    ) -> None:
        self.root = root
        self.environment = environment or {}
        self._job, self._here = moved

    def here(self, path: str) -> str:
        """A path of the job's, as it is named here."""
        inside = self._job and path.startswith(self._job + "/")
        return self._here + path[len(self._job) :] if inside else path

    def about(self) -> "Dict[str, Any]":
        """What is known of the job's artifacts."""
        from nemo_runspec.artifacts import versions

        return Folder(self.root).read(versions.ABOUT) if self.root else {}


def register(versions: "Sequence[str]", place: JobPlace) -> "List[str]":
    """Makes what a job has made a version of its artifact, and the newest one; why not, of each that could not be.

    What may pass, such as a full disk or a bucket that does not answer, is tried again for a while. A job that is
    killed meanwhile has registered nothing, or all of it.

    Args:
        versions: where it may have written: `<store>/<artifact>/<job>`.
    """
    found = [path for path in map(place.here, versions) if os.path.exists(path)]
    return [said for said in (_insist(path, place) for path in found) if said]


def published(ended: Ended, versions: "Sequence[str]", place: JobPlace) -> Ended:
    """How a job has ended whose work is done, once what it has made is registered, or cannot be. As `register`."""
    said = register(versions, place)
    return Ended(UNREGISTERED, reason=unregistered(said), code=REGISTRATION, ran=True) if said else ended


def unregistered(said: "Sequence[str]") -> str:
    """The reason of a job whose work is done and of which these lines say why it is not registered."""
    return "produced, not registered: " + "; ".join(said)


def register_later(root: str) -> int:
    """Registers what an ended job has made, as JSON on the standard input says; 1 where that cannot be.

    It has `versions`, `moved` (as `JobPlace` has it; a variable in the second one is filled in) and `keys`.
    """
    asked = values.read(sys.stdin.read())
    job, here = asked["moved"]
    said = register(asked["versions"], JobPlace(root, asked["keys"], (job, os.path.expandvars(here))))
    missing = [path for path in asked["versions"] if not os.path.exists(JobPlace("", {}, (job, here)).here(path))]
    os.write(1, values.write({"said": said, "missing": missing}).encode("utf-8", "surrogateescape"))
    return 1 if said else 0


def _insist(path: str, place: JobPlace) -> str:
    """Registers what lies at a path, again where that may help; why it could not be, '' where it could."""
    given = place.about().get("patience")
    until, pause = time.monotonic() + float(_PATIENCE if given is None else given), _FIRST
    what = "%s (%s)" % (path.split("/")[-2], path)
    while True:
        try:
            _register(path, place)
            return ""
        except OSError as error:
            why = error.strerror or str(error)
            if error.errno not in _PASSING or time.monotonic() + pause > until or _is_stopped(pause):
                return "%s: %s" % (what, why)
        say("%s is not registered yet: %s; it is tried again" % (what, why))
        pause = min(2 * pause, _LONGEST)


def _is_stopped(seconds: float) -> bool:
    """Waits; whether the job was told to stop meanwhile."""
    found = signals.wait(seconds)
    return found is not None and found.stops


def _register(path: str, place: JobPlace) -> None:
    """Raises `OSError`."""
    from nemo_runspec.artifacts import versions

    folder, _, job = path.rpartition("/")
    number = versions.of_path(path).get("version")  # by another node, or by an attempt before
    if number is None:
        number = _add(path, place)
    try:
        versions.publish(folder, number, job)
    except OSError as error:
        why = "v%s is there, and %s/latest does not lead to it: %s" % (number, folder, error.strerror)
        raise OSError(error.errno, why) from None


def _add(path: str, place: JobPlace) -> int:
    """A new version, whose data lie at that path; its number. Raises `OSError`."""
    from nemo_runspec.artifacts import content, versions

    folder, _, job = path.rpartition("/")
    about, name = place.about(), folder.rpartition("/")[2]
    manifest = {"name": name, "path": job, "producer": about.get("producer", {"job": job})}
    manifest.update(dict(about.get("artifacts", {})).get(name, {}))
    manifest["inputs"] = [_input(place, dict(each)) for each in about.get("inputs", ())]
    manifest.update(content.measured(path))
    if "store" in about:
        code, said = ask_bucket(place.root, ["put", path], place.environment, _heed_stop, values.write(manifest))
        if code:
            raise OSError(said)
        return int(said)
    return versions.add(folder, manifest, Folder(place.root).text("train.yaml") if place.root else "")


def _heed_stop() -> None:
    """Raises `OSError` where the job was told to stop."""
    if _is_stopped(0.0):
        raise OSError("the job was told to stop")


def _input(place: JobPlace, known: "Dict[str, Any]") -> "Dict[str, Any]":
    """An input as it was read: which version, or what lay at a path of somebody's own."""
    from nemo_runspec.artifacts import content, versions

    path = known["path"] = input_path(Folder(place.root + "/status"), known["input"]) or known["path"]
    if not path.startswith("/"):
        return known
    found = versions.of_path(place.here(path))
    if found:
        known.update({key: found[key] for key in ("name", "version", "type", "digest") if key in found})
        return known
    try:
        known.update(content.measured(place.here(path), 16 << 20))
    except OSError:  # of a container that is gone, or nobody's to read
        pass
    return known
