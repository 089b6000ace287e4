"""`nemotron` as processes that need not be loaded anew: a fork of one that has its modules in memory already.

What such a process is asked to do takes it milliseconds, reading the modules that it needs most of a second of the
processor's time, and the tests start thousands of them. It is a process like any other: its own id, environment,
directory, streams and session, and a child of this one, so that whoever starts it waits for it and signals it as usual.

What it cannot show is how nemotron starts: `/proc/PID/cmdline` and `/proc/PID/environ` are those of the process that it
is a fork of. Tests that look at those start it cold; so is it on a terminal, with variables that Python itself reads
or a `sitecustomize.py`, and where this machine has no `clone` that we know.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import inspect
import io
import json
import os
import pkgutil
import platform
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine()) if sys.platform == "linux" else None
_CLONE_PARENT = 0x8000
"""The new process's parent is this one's own: the tests, and not the process that is forked."""

_LOCALE = "C.UTF-8"
_LARGEST = 1 << 20
_OTHERS = (
    "hydra.compose", "hydra.core.global_hydra", "hydra.core.override_parser.overrides_parser", "hydra.utils",
    "hydra._internal.hydra", "hydra._internal.config_loader_impl", "hydra._internal.core_plugins.basic_launcher",
    "omegaconf", "yaml", "jinja2", "requests", "urllib3", "docker", "setproctitle", "typer", "rich.console",
    "rich.table", "rich.syntax", "rich.markdown", "rich.progress", "uuid", "sqlite3", "tarfile", "zipfile",
    "concurrent.futures.thread", "xml.etree.ElementTree", "pygments.lexers.python", "unicodedata", "getpass",
)  # fmt: skip
"""What nemotron imports as it needs it."""


class WarmProcess(subprocess.Popen[Any]):
    """`python -m nemotron ARGS…`, without the time that this takes to load.

    Args:
        args: the words after `nemotron`. The others as of `subprocess.Popen`.
    """

    def _execute_child(self, *given: Any) -> None:
        """What `Popen` calls in order to start the program, its pipes being made."""
        call = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments  # type: ignore[attr-defined]
        ends = [call[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        self.pid = _server().fork(
            {
                "args": list(call["args"]),
                "cwd": str(call["cwd"] or Path.cwd()),
                "env": dict(call["env"]),
                "session": call["start_new_session"],
            },
            [own if end == -1 else end for own, end in enumerate(ends)],
        )
        self._child_created = True
        names = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(call[name] for name in names))  # type: ignore[attr-defined]


def start(args: Sequence[str], *, env: Mapping[str, str], cold: bool = False, **options: Any) -> subprocess.Popen[Any]:
    """`nemotron ARGS…` as a process, warm where that makes no difference.

    Args:
        cold: as a program of its own in any case. options: as of `subprocess.Popen`.
    """
    if cold or not _can_be_warm(env):
        return subprocess.Popen([sys.executable, "-m", "nemotron", *args], env=env, **options)
    return WarmProcess(list(args), env=env, **options)


def _can_be_warm(env: Mapping[str, str]) -> bool:
    is_changed = any((folder / "sitecustomize.py").exists() for folder in map(Path, _added(env)))
    return bool(_CLONE) and not is_changed and _read_by_python(env) == _PYTHON and env.get("LC_ALL") == _LOCALE


def _added(env: Mapping[str, str]) -> list[str]:
    """The folders of PYTHONPATH."""
    return [folder for folder in env.get("PYTHONPATH", "").split(os.pathsep) if folder]


def _read_by_python(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that Python reads as it starts, but for those that can be set later."""
    return {name: env[name] for name in env if name.startswith("PYTHON") and name not in _LATER}


_LATER = {"PYTHONDONTWRITEBYTECODE", "PYTHONPATH"}
_PYTHON = _read_by_python(os.environ)
"""Those of the tests, which the process that is forked has too."""


class Server:
    """The process that is forked, as its parent has it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LC_", "LANG"))}
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            env={**kept, **_PYTHON, "LC_ALL": _LOCALE},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def fork(self, request: Mapping[str, Any], streams: Sequence[int]) -> int:
        """The id of a new process."""
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], list(streams))
            told = self._socket.recv(8)
        assert told, "the process that is forked has gone"
        return int(struct.unpack("q", told)[0])


_started: dict[int, Server] = {}


def _server() -> Server:
    """This process's own."""
    if os.getpid() not in _started:
        _started.clear()
        _started[os.getpid()] = Server()
    return _started[os.getpid()]


def _load() -> None:
    for name in ("nemo_runspec", "nemotron"):
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in _OTHERS:
        with suppress(ImportError):  # of another version: then the new processes import what they need
            importlib.import_module(name)
    sys.modules["setproctitle"].getproctitle()  # finds this process's command line, as long as its environment is there


def _serve(connection: socket.socket) -> dict[str, Any]:
    """Forks as often as it is asked to. Returns in the new processes alone: what each was asked for."""
    while True:
        data, streams, _, _ = socket.recv_fds(connection, _LARGEST, 3)
        if not data:
            os._exit(0)
        pid = _fork()
        if pid == 0:
            connection.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            for stream in streams:
                os.close(stream)
            return dict(json.loads(data))
        for stream in streams:
            os.close(stream)
        connection.send(struct.pack("q", pid))


def _fork() -> int:
    """As `os.fork`, but the new process is a brother of this one."""
    python = ctypes.pythonapi
    system = ctypes.PyDLL(None)
    system.syscall.restype = ctypes.c_long
    python.PyOS_BeforeFork()
    pid = int(system.syscall(ctypes.c_long(_CLONE or 0), ctypes.c_ulong(_CLONE_PARENT | signal.SIGCHLD), 0, 0, 0, 0))
    (python.PyOS_AfterFork_Child if pid == 0 else python.PyOS_AfterFork_Parent)()
    assert pid >= 0, "clone failed"
    return pid


def _become(request: Mapping[str, Any]) -> None:
    """Makes this process what it was asked to be."""
    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.stdin = sys.__stdin__ = _renewed(sys.stdin, "rb", 0)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _renewed(sys.stdout, "wb", 1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _renewed(sys.stderr, "wb", 2)  # type: ignore[misc]
    program = importlib.util.find_spec("nemotron.__main__")
    sys.path[:1] = [request["cwd"], *_added(os.environ)]
    sys.argv = [str(program and program.origin), *request["args"]]


def _renewed(stream: Any, mode: str, number: int) -> io.TextIOWrapper:
    """A stream of Python's as it would have made it of what it leads to now, which need not be a file."""
    raw = open(number, mode, buffering=0 if stream.write_through and mode == "wb" else -1, closefd=False)  # noqa: SIM115
    ways = {"line_buffering": stream.line_buffering, "write_through": stream.write_through}
    return io.TextIOWrapper(raw, stream.encoding, stream.errors, newline="\n", **ways)


def _end(code: Any) -> None:
    """What Python does as it exits, but for taking a thousand modules apart: that is most of a short command's time."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:  # a thread that is not waited for may have been importing what closes it
                stream.flush()
    except OSError:
        os._exit(120)
    os._exit(int(code or 0))


if __name__ == "__main__":
    _load()
    gc.collect()
    gc.freeze()  # nothing of it is looked at, and so copied, in the new processes
    _become(_serve(socket.socket(fileno=int(sys.argv[1]))))
    from nemotron.__main__ import main

    try:
        main()
    except SystemExit as ended:
        _end(ended.code)
