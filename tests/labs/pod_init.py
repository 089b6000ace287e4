"""Keeps one container of `labs.pods`: makes its namespaces and root file system, and waits until it has ended.

Run as a program of its own. On stdin: one line of JSON (what `labs.pods` makes), then the numbers of signals for the
container's first process, a line each; the end of stdin kills it. Its exit code becomes ours, 128 + signal where one
ended it, 125 where there was no container.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

_NEW = {"mount": 0x00020000, "uts": 0x04000000, "ipc": 0x08000000, "pid": 0x20000000}
_READ_ONLY, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    """Runs the container; its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own handler would end what becomes process 1
    line, rest = _first_line()
    spec = json.loads(line)
    _must(_libc.unshare(sum(_NEW.values())), "new namespaces")
    child = os.fork()
    if child == 0:
        try:
            _become(spec)
        except OSError as error:
            print(f"container: {error}", file=sys.stderr, flush=True)
        os._exit(125)
    for number in (1, 2):
        os.close(number)
    return _watch(child, rest)


def _watch(child: int, rest: bytes) -> int:
    """Hands signals on until the child has ended."""
    ended = os.pidfd_open(child)
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    waiting.register(ended, select.POLLIN)
    while True:
        *lines, rest = rest.split(b"\n")
        for number in lines:
            os.kill(child, int(number))
        ready = dict(waiting.poll())
        if ended in ready:
            break
        told = os.read(0, 4096)
        if not told:
            os.kill(child, signal.SIGKILL)
            break
        rest += told
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _become(spec: dict[str, Any]) -> None:
    """Turns this process, the first of its namespace, into the container's command."""
    # The keeper's death is the container's.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    root = _root(spec["folder"])
    _system(root)
    for path in spec["hidden"]:
        _empty(root + path)
    for path, text in spec["files"].items():
        _write(root + path, text)
    for source, path, read_only in spec["mounts"]:
        _bind(source, root + path, read_only=read_only)
    socket.sethostname(spec["hostname"])
    os.chroot(root)
    os.chdir(spec["workdir"])
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    _execute(spec["command"], spec["env"])


def _execute(command: list[str], env: dict[str, str]) -> None:
    try:
        os.execvpe(command[0], command, env)
    except OSError as error:
        print(f"exec: {command[0][:200]!r}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _root(folder: str) -> str:
    """The machine's own file system; what is written in it is kept in memory and gone with the container."""
    _mount("none", "/", "", _REC | _PRIVATE)
    _mount("scratch", folder, "tmpfs", options="mode=755")
    for part in ("upper", "work", "root"):
        Path(folder, part).mkdir()
    layers = f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work"
    _mount("root", f"{folder}/root", "overlay", options=layers)
    return f"{folder}/root"


def _system(root: str) -> None:
    _mount("proc", f"{root}/proc", "proc")
    _mount("/sys", f"{root}/sys", "", _BIND | _REC)
    _mount("/dev", f"{root}/dev", "", _BIND | _REC)
    _mount("shm", f"{root}/dev/shm", "tmpfs", options="mode=1777")


def _empty(path: str) -> None:
    Path(path).mkdir(parents=True, exist_ok=True)
    mode = Path(path).stat().st_mode & 0o7777
    _mount("empty", path, "tmpfs", options=f"mode={mode:o}")


def _write(path: str, text: str) -> None:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(0o755)


def _bind(source: str, path: str, *, read_only: bool) -> None:
    folder = Path(source).is_dir()
    (Path(path) if folder else Path(path).parent).mkdir(parents=True, exist_ok=True)
    if not folder:
        Path(path).touch()
    _mount(source, path, "", _BIND | _REC)
    if read_only:
        _mount("none", path, "", _REMOUNT | _BIND | _READ_ONLY)


def _mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    words = (os.fsencode(source), os.fsencode(target), os.fsencode(kind), flags, os.fsencode(options))
    _must(_libc.mount(*words), f"mount {source} at {target}")


def _must(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _first_line() -> tuple[bytes, bytes]:
    read = b""
    while b"\n" not in read:
        more = os.read(0, 1 << 20)
        if not more:
            sys.exit(125)
        read += more
    line, _, rest = read.partition(b"\n")
    return line, rest


if __name__ == "__main__":
    sys.exit(main())
