"""Containers for tests: processes in namespaces of their own, on this machine's own file system, without an engine.

A container sees the machine's programs, and nothing of the project, of /tmp or of a home. What it writes lies in memory
and is gone when it ends, except below its mounts. It shares the machine's network, so it reaches servers on loopback.
Its command is process 1: a signal without a handler does nothing to it, as in every container. Needs root.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from labs.slurm.process import descendants

needs_mounts = pytest.mark.lab("mount", how="as root, with REQUIRE_LAB=1 uv run --group dev pytest")
"""Marks a test, or as `pytestmark` a file, that runs containers."""

Mount = tuple[Path | str, str, bool]
"""A directory of this machine, where the container sees it, whether read-only."""

IMAGE = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
"""What an image's own environment says."""
FILES = {"/usr/local/bin/python": '#!/bin/sh\nexec /usr/bin/python3 "$@"\n'}
"""What every container has beyond this machine's files; executable."""
REPOSITORY = Path(__file__).resolve().parents[2]
HIDDEN = ("/tmp", "/var/tmp", "/mnt", "/home", "/root", str(Path.home()), tempfile.gettempdir(), str(REPOSITORY))
_INIT = Path(__file__).with_name("pod_init.py")
_POLL = 0.02


@dataclass
class Pod:
    """A container that was started."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str]
    started: float
    _process: subprocess.Popen[bytes] = field(repr=False)
    log: list[tuple[int, bytes]] = field(default_factory=list, repr=False)
    """Its output: nanoseconds since 1970, strictly rising, and a line without its end; appended as it is written."""
    ended: float | None = None
    oom_killed: bool = False
    _exited: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def state(self) -> str:
        """`running`, or `exited`: no process of it is left, and its log is whole."""
        return "exited" if self._exited.is_set() else "running"

    @property
    def exit_code(self) -> int | None:
        """Its command's, 128 + signal where one ended it; None while it runs."""
        return self._process.returncode if self._exited.is_set() else None

    @property
    def text(self) -> str:
        """Its output so far."""
        return b"".join(line + b"\n" for _, line in list(self.log)).decode(errors="replace")

    @property
    def pids(self) -> list[int]:
        """The machine's process ids of its processes, process 1 first; empty once it has ended."""
        if self._exited.is_set():
            return []
        return list(descendants(self._process.pid))

    def wait(self, seconds: float = 120) -> int:
        """Its exit code. Raises: TimeoutError with its output, where it still runs after that long."""
        if not self._exited.wait(seconds):
            raise TimeoutError(f"{self.name} still runs after {seconds:g} s:\n{self.text}")
        return self._process.returncode

    def wait_for(self, text: str, seconds: float = 120) -> None:
        """Waits until it has written this. Raises: TimeoutError with its output."""
        end = time.monotonic() + seconds
        while True:
            over = self._exited.is_set()
            if text in self.text:
                return
            if over or time.monotonic() > end:
                raise TimeoutError(f"{self.name} ({self.state}) has not written {text!r}:\n{self.text}")
            time.sleep(_POLL)

    def signal(self, number: int) -> None:
        """Sends process 1 a signal; nothing happens where it has ended."""
        with suppress(OSError, ValueError):
            assert self._process.stdin is not None
            self._process.stdin.write(b"%d\n" % number)
            self._process.stdin.flush()

    def hears(self, number: int) -> bool:
        """Whether process 1 catches or blocks a signal now: the kernel drops any other that is sent to it."""
        return any(hears(pid, number) for pid in self.pids[:1])

    def stop(self, grace: float = 10) -> int:
        """Asks it to end (TERM to process 1), and kills it after this many seconds; its exit code."""
        stop_together([self], grace)
        return self.wait()

    def kill(self) -> None:
        """Ends it at once; returns when nothing of it is left."""
        kill_together([self])

    def oom(self, *, whole: bool = False) -> None:
        """Kills its biggest process as the kernel does when memory is used up; `whole`: all of them."""
        self.oom_killed = True
        if whole:
            self.signal(signal.SIGKILL)
        else:
            self._kill_biggest(self.pids)

    def _kill_biggest(self, pids: Sequence[int]) -> None:
        """One of these, process 1 only where it is alone; returns when its memory is given back."""
        for victim in sorted(pids[1:] or pids, key=memory_of, reverse=True)[:1]:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            while memory_of(victim) and not self._exited.wait(_POLL):
                pass


class Pods:
    """All containers of one lab; `root` is a directory for what they need on this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.all: list[Pod] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Pods:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> list[Pod]:
        """Those that have not ended."""
        return [pod for pod in list(self.all) if pod.state == "running"]

    def start(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str],
        mounts: Iterable[Mount] = (),
        hostnames: Iterable[str] = (),
        memory_limit: int | None = None,
        *,
        hostname: str | None = None,
        workdir: str = "/",
        files: Mapping[str, str] | None = None,
    ) -> Pod:
        """Starts a container and returns at once.

        Args:
            command: run as it is, without a shell; its environment is `env` and what `IMAGE` says.
            hostnames: names that lead to 127.0.0.1 in it.
            memory_limit: bytes of all its processes; beyond, the biggest is killed.
            hostname: its own, by default `name`.
            files: path → text of programs that its image has besides.
        """
        names = [hostname or name, *hostnames]
        spec = {
            **_seen(names, env, mounts, files or {}),
            "folder": str(self._folder(name)),
            "command": list(command),
            "workdir": workdir,
        }
        with self._lock:  # whoever ends all containers finds one that is whole, or none
            pod = self._launch(name, command, env)
            self._tell(pod, spec)  # before anybody can find it: a signal's line comes after this one
            self.all.append(pod)
            threading.Thread(target=_read, args=(pod,), daemon=True).start()
        if memory_limit is not None:
            threading.Thread(target=_limit, args=(pod, memory_limit), daemon=True).start()
        return pod

    def close(self) -> None:
        """Ends all containers; returns when nothing of them is left. It can be used on."""
        with self._lock:
            ending = list(self.all)
            self.all.clear()
        kill_together(ending)

    reset = close

    def _launch(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> Pod:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_INIT)],
            env=IMAGE,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return Pod(name, tuple(command), dict(env), time.time(), process)

    def _tell(self, pod: Pod, spec: dict[str, Any]) -> None:
        # The environment may hold secrets: it goes through a pipe, never over a disk or a command line.
        assert pod._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: its exit code and its log say so
            pod._process.stdin.write(json.dumps(spec).encode() + b"\n")
            pod._process.stdin.flush()

    def _folder(self, name: str) -> Path:
        self.root.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=re.sub(r"\W", "-", name)[:40] + ".", dir=self.root))


def hears(pid: int, number: int) -> bool:
    """Whether a process catches or blocks a signal now."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    masks = re.findall(r"^Sig(?:Blk|Cgt):\s*(\w+)", status, re.MULTILINE)
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def stop_together(pods: Iterable[Pod], grace: float) -> None:
    """Asks containers to end and kills those that have not after this many seconds; returns when nothing is left.

    All are asked, and all killed, before one is waited for: none is to see another one end and say so.
    """
    ending = list(pods)
    end = time.monotonic() + grace
    for pod in ending:
        pod.signal(signal.SIGTERM)
    kill_together([pod for pod in ending if not pod._exited.wait(max(0.0, end - time.monotonic()))])


def kill_together(pods: Iterable[Pod]) -> None:
    """Ends containers at once; returns when nothing of them is left."""
    ending = list(pods)
    for pod in ending:
        pod.signal(signal.SIGKILL)
    for pod in ending:
        pod.wait()


def memory_of(pid: int) -> int:
    """Bytes of memory that a process holds; 0 once it has ended."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _seen(
    names: Sequence[str], env: Mapping[str, str], mounts: Iterable[Mount], files: Mapping[str, str]
) -> dict[str, Any]:
    """What a container sees, as `pod_init` is told it; the first of its names is its own."""
    own = names[0][:64]
    made = {"/etc/hosts": f"127.0.0.1 localhost {' '.join(names)}\n", "/etc/hostname": f"{own}\n"}
    return {
        "env": {**IMAGE, "HOSTNAME": own, **env},
        "hidden": _outermost(HIDDEN),
        "files": {**FILES, **made, **files},
        "mounts": [[str(source), path, ro] for source, path, ro in sorted(mounts, key=lambda mount: mount[1])],
        "hostname": own,
    }


def _read(pod: Pod) -> None:
    """Takes down what the container writes until it has ended."""
    assert pod._process.stdout is not None
    last = 0
    for line in pod._process.stdout:
        last = max(time.time_ns(), last + 1)
        pod.log.append((last, line.removesuffix(b"\n")))
    pod._process.wait()
    pod.ended = time.time()
    with suppress(OSError):
        assert pod._process.stdin is not None
        pod._process.stdin.close()
    pod._process.stdout.close()
    pod._exited.set()


def _limit(pod: Pod, most: int) -> None:
    while not pod._exited.wait(_POLL):
        pids = pod.pids
        if sum(map(memory_of, pids)) > most:
            pod.oom_killed = True
            pod._kill_biggest(pids)


def _outermost(paths: Iterable[str]) -> list[str]:
    """Without those that lie below another."""
    kept: list[str] = []
    for path in sorted({os.path.realpath(path) for path in paths}):
        if not any(path.startswith(f"{outer}/") for outer in kept):
            kept.append(path)
    return kept
