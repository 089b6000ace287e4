"""A job's outputs: which files they are, copied to a mount so that none is lost, and sent to S3. Travels with jobs."""

import errno
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Callable, Iterator, Mapping, NamedTuple, Sequence, Tuple  # noqa: UP035  (Python 3.6)

from nemo_runspec.backends.cloud.storage.data_cache import AT_ONCE, Location, link
from nemo_runspec.backends.cloud.storage.s3 import PART, S3, S3Error

_NETWORK = re.compile(r"nfs|lustre|ceph|gpfs|weka|beegfs|cifs|smb|9p|fuse|pvfs|orangefs|ocfs|gfs")
"""Types of file systems that other machines see too."""

_FULL = (errno.ENOSPC, errno.EDQUOT)

Places = Mapping[Path, Tuple[Path, Location]]  # noqa: UP006  (Python 3.6)
"""Where files stay on the mount, and the cache that is told so."""


class Upload(NamedTuple):
    """A file, and the key it goes to."""

    file: Path
    key: str


class Kept(NamedTuple):
    """How many files were copied, and why another one was not: '' where all were."""

    copied: int
    problem: str


class Sent(NamedTuple):
    """How large it was, or why it was not sent."""

    size: int
    problem: str


def output_names(outputs: "Sequence[str]") -> "list[str]":
    """Where outputs go below `output_url`: their paths below the folder that all of them are in."""
    parts = [[part for part in output.split("/") if part not in ("", ".")] for output in outputs]
    common = 0
    while parts and all(len(each) > common + 1 and each[common] == parts[0][common] for each in parts):
        common += 1
    return ["/".join(each[common:]) for each in parts]


def is_shared(path: Path, folder: Path) -> bool:
    """True if all nodes see it: it is on the storage that the job's directory is on, or on a network's."""
    mounts = _mounts()
    point, kind = _mount_of(path, mounts)
    if point == _mount_of(folder, mounts)[0]:
        return True
    return point != "/" and bool(_NETWORK.search(kind) or path.stat().st_dev == folder.stat().st_dev)


def uploads(path: Path, key: str, problems: "list[str]", say: "Callable[[str], object]") -> "list[Upload]":
    """All that is there; what cannot be read becomes a problem, and does not keep the rest back.

    Args:
        problems: gets a line for each.
        say: takes a line of what is odd.
    """
    if path.is_file():
        return [Upload(path, key)]
    root, before = os.path.realpath(str(path)), len(problems)
    found = [Upload(Path(file), f"{key}/{rest}") for file, rest in _below(root, root, "", (root,), problems, say)]
    if not found and len(problems) == before:
        say(f"warning: output {path} has no files")
    return found


def keep(files: "Sequence[Upload]", folder: Path, node: int) -> Kept:
    """Copies files into a folder, each to where its key says, as many as can be.

    Args:
        node: which this is; the others may copy to the same folder meanwhile.
    """
    scratch = folder / f".node-{node}.partial"
    copied, problem = 0, ""
    for each in files:
        path = place_of(folder, each.key)
        try:
            _copy(each.file, path, scratch)
            copied += 1
        except OSError as error:
            problem = problem or why(error.filename or path, error)
            if error.errno in _FULL:  # others need the little that is left more than the files that come now
                break
    return Kept(copied, problem)


def place_of(folder: Path, key: str) -> Path:
    """Where the copy of an output goes. A `..` of an output's path must not lead out of the folder."""
    below = os.path.normpath("/" + key).lstrip("/")
    return folder / os.fsdecode(below.encode("utf-8", "surrogateescape"))


def send(s3: S3, bucket: str, uploads: "Sequence[Upload]", places: Places) -> "Iterator[Sent]":
    """Sends small files several at a time, then large ones in parts of which several go at a time."""
    one = partial(_send, s3, bucket, places)
    large = [each for each in uploads if _is_large(each.file)]
    small = set(uploads).difference(large)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(one, sorted(small))
    for each in large:
        yield one(each)


def _below(
    root: str, folder: str, rest: str, trail: "tuple[str, ...]", problems: "list[str]", say: "Callable[[str], object]"
) -> "Iterator[tuple[str, str]]":
    """Files, with their keys' last parts. Links are followed as long as they stay inside, and not in circles."""
    try:
        entries = sorted(os.scandir(folder), key=lambda each: each.name)
    except OSError as error:
        problems.append(why(folder, error))
        return
    for entry in entries:
        name = rest + os.fsencode(entry.name).decode("utf-8", "surrogateescape")
        real = os.path.realpath(entry.path)
        try:
            left_out, is_folder = _left_out(entry, real, root, trail), entry.is_dir()
        except OSError as error:
            problems.append(why(entry.path, error))
            continue
        if left_out:
            say(f"warning: {entry.path} is left out: {left_out}")
        elif is_folder:
            yield from _below(root, entry.path, name + "/", (*trail, real), problems, say)
        else:
            yield entry.path, name


def _left_out(entry: "os.DirEntry[str]", real: str, root: str, trail: "tuple[str, ...]") -> str:
    """Why it is no output, '' where it is one."""
    if entry.is_symlink() and not real.startswith(root + "/"):
        return f"it is a link to {real}"
    if entry.is_dir():
        return "it is a link in a circle" if real in trail else ""
    return "" if entry.is_file() else "it is no file"


def why(path: object, error: OSError) -> str:
    """A problem with a path, in one line."""
    return f"{path}: {error.strerror or error}"


def _mounts() -> "list[tuple[str, str]]":
    """Where file systems are mounted, and their types (proc(5), mountinfo)."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return []
    words = [line.split() for line in lines]
    return [(_unescaped(each[4]), each[each.index(b"-") + 1].decode()) for each in words if b"-" in each]


def _unescaped(path: bytes) -> str:
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found.group(1), 8)]), path))


def _mount_of(path: Path, mounts: "list[tuple[str, str]]") -> "tuple[str, str]":
    """The mount that a path is on; of several at one place the last hides the others."""
    real = os.path.realpath(str(path))
    over = [mount for mount in mounts if real == mount[0] or real.startswith(mount[0].rstrip("/") + "/")]
    return max(reversed(over), key=lambda mount: len(mount[0]), default=("/", ""))


def _copy(file: Path, path: Path, scratch: Path) -> None:
    """Whole or not at all: a copy gets its name once it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove(scratch)  # of a pod that was killed, perhaps of a file that may not be written
    try:
        shutil.copyfile(str(file), str(scratch))
        with suppress(OSError):  # not all storage knows modes
            shutil.copymode(str(file), str(scratch))
        scratch.replace(path)
    except OSError:
        _remove(scratch)
        raise


def _remove(file: Path) -> None:
    with suppress(OSError):
        file.unlink()


def _is_large(file: Path) -> bool:
    with suppress(OSError):
        return file.stat().st_size >= PART
    return False


def _send(s3: S3, bucket: str, places: Places, upload: Upload) -> Sent:
    try:
        with upload.file.open("rb") as file:
            size = s3.upload(bucket, upload.key, file, at_once=AT_ONCE)
    except S3Error as error:
        return Sent(0, str(error))
    except OSError as error:
        return Sent(0, why(upload.file, error))
    if upload.file in places:
        with suppress(S3Error, OSError):  # it is fetched where it is wanted, then
            _remember(s3, bucket, upload.key, *places[upload.file])
    return Sent(size, "")


def _remember(s3: S3, bucket: str, key: str, place: Path, location: Location) -> None:
    """Makes the file that stays on the mount the cache's copy of the object that was just made of it."""
    found = s3.head(bucket, key)
    if place.stat().st_size == found.size:
        link(location, found, place)
