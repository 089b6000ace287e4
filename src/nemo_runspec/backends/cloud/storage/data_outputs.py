"""What a job's outputs are: their files, their names on S3, and who copies them. Travels with jobs."""

import os
import re
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, Sequence  # noqa: UP035  (Python 3.6)

_NETWORK = re.compile(r"nfs|lustre|ceph|gpfs|weka|beegfs|cifs|smb|9p|fuse|pvfs|orangefs|ocfs|gfs")
"""Types of file systems that other machines see too."""


class Upload(NamedTuple):
    """A file, and the key it goes to."""

    file: Path
    key: str


def output_names(outputs: "Sequence[str]") -> "list[str]":
    """Where outputs go below `output_url`: their paths below the folder that all of them are in."""
    parts = [[part for part in output.split("/") if part not in ("", ".")] for output in outputs]
    common = 0
    while parts and all(len(each) > common + 1 and each[common] == parts[0][common] for each in parts):
        common += 1
    return ["/".join(each[common:]) for each in parts]


def is_shared(path: Path, folder: Path) -> bool:
    """Whether all nodes see it: it is on the storage that the job's directory is on, or on a network's."""
    mounts = _mounts()
    point, kind = _mount_of(path, mounts)
    if point == _mount_of(folder, mounts)[0]:
        return True
    return point != "/" and bool(_NETWORK.search(kind) or path.stat().st_dev == folder.stat().st_dev)


def uploads(path: Path, key: str, problems: "list[str]", say: "Callable[[str], None]") -> "list[Upload]":
    """All that is there; what cannot be read becomes a problem, and does not keep the rest back.

    Args:
        problems: gets a line for each. `say`: takes a line of what is odd.
    """
    if path.is_file():
        return [Upload(path, key)]
    root, before = os.path.realpath(str(path)), len(problems)
    found = [Upload(Path(file), f"{key}/{rest}") for file, rest in _below(root, root, "", (root,), problems, say)]
    if not found and len(problems) == before:
        say(f"warning: output {path} has no files")
    return found


def _below(
    root: str, folder: str, rest: str, trail: "tuple[str, ...]", problems: "list[str]", say: "Callable[[str], None]"
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
