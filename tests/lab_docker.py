"""A real Docker engine for tests, with images made on the spot. Nothing of it is left when the tests have ended.

Each test process has one engine, because tests look at all containers there are. It holds a lock on a file; a keeper
process, which waits for that lock, stops the engine then: so the engine also ends when the test process is killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from labs.cache import CACHE
from waiting import until

BASE = "lab/python:latest"
"""Debian 12 with bash, coreutils and python3, and `python`."""
WITH_ENTRYPOINT = "lab/entrypoint:latest"
"""The same with an ENTRYPOINT that runs nothing it is given, and a CMD and USER of its own."""
WITHOUT_BASH = "lab/busybox:latest"

_SECONDS_TO_START, _SECONDS_TO_STOP = 300.0, 900.0
"""How long an engine may take, on a machine where several are started at once."""

_RUNNING: list[Engine] = []
_TRIES = 3
_INCLUDE = "python3,procps,libstdc++6"
_RUNC = """\
#!/usr/bin/env python3
# Clamps what this machine's own limits do not allow, so that privileged and memlock=-1 can be asked for.
import json, os, resource, sys
words = sys.argv[1:]
if "--bundle" in words:
    file = os.path.join(words[words.index("--bundle") + 1], "config.json")
    spec = json.load(open(file))
    kinds = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    limits = {kind: resource.getrlimit(getattr(resource, kind))[1] for kind in kinds}
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    bounds = int(status["CapBnd"], 16)
    process = spec.get("process", {})
    for limit in process.get("rlimits") or []:
        most = limits.get(limit["type"], -1)
        if most >= 0:
            limit["hard"], limit["soft"] = min(limit["hard"], most), min(limit["soft"], most)
    names = json.load(open(__file__ + ".caps"))
    for kind, held in (process.get("capabilities") or {}).items():
        process["capabilities"][kind] = [c for c in held if c in names and bounds >> names.index(c) & 1]
    json.dump(spec, open(file, "w"))
os.execvp("runc", ["runc", *words])
"""
_CAPS = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
    "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN "
    "SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE "
    "MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
)

needs_docker = pytest.mark.lab("docker", how="bash .ci/lab, then REQUIRE_LAB=1 uv run --group dev pytest")
"""Marks a test, or as `pytestmark` a file, that needs the engine."""


@pytest.fixture(scope="session")
def docker_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The engine of this test process; a suite takes the fixture by importing it into its `conftest.py`.

    pytest takes each import for a fixture of its own: one engine serves all.
    """
    if _RUNNING:
        yield _RUNNING[0]
        return
    with kept_engine(tmp_path_factory.mktemp("docker-lab")) as engine:
        _RUNNING.append(engine)
        yield engine
        _RUNNING.clear()


@dataclass(frozen=True)
class Engine:
    """A running engine. `folder` holds its socket, data and log."""

    folder: Path

    @property
    def host(self) -> str:
        """Its address, for DOCKER_HOST."""
        return f"unix://{self.folder}/docker.sock"

    @property
    def pid(self) -> int:
        """The process id of the engine."""
        return int((self.folder / "docker.pid").read_text())

    def client(self, seconds: float = 600) -> Any:
        """A docker-py `APIClient`. `seconds`: how long it waits for an answer; an image may take minutes to import."""
        from docker import APIClient

        return APIClient(self.host, version="auto", timeout=seconds)

    def ready(self) -> bool:
        """True once it answers."""
        from docker.errors import DockerException

        try:
            self.client(60).close()
        except (DockerException, OSError):
            return False
        return True

    def containers(self) -> list[dict[str, Any]]:
        """All containers there are, stopped ones too."""
        client = self.client()
        try:
            return client.containers(all=True)
        finally:
            client.close()

    def networks(self) -> set[str]:
        """The names of all networks but the three every engine has."""
        client = self.client()
        try:
            return {network["Name"] for network in client.networks()} - {"bridge", "host", "none"}
        finally:
            client.close()

    def empty(self) -> None:
        """Removes all containers and networks, also where somebody else is about to."""
        client = self.client()
        for container in client.containers(all=True):
            _remove(client, container["Id"])
        until(lambda: not client.containers(all=True), "the end of the last container")

        def without_networks() -> set[str]:
            client.prune_networks()  # leaves, and does not say so, those that an ended container still counts in
            return self.networks()

        until(without_networks, "the end of the last network", lambda left: not left)
        client.close()

    def run(self, *words: str, image: str = BASE, binds: tuple[str, ...] = ()) -> str:
        """Runs a command in a container of root's; its output."""
        client = self.client()
        host = {"Binds": list(binds), "NetworkMode": "none"}
        made = client.create_container_from_config({"Image": image, "Cmd": list(words), "HostConfig": host})["Id"]
        try:
            client.start(made)
            client.wait(made)
            return client.logs(made).decode()
        finally:
            client.remove_container(made, force=True, v=True)
            client.close()


def _remove(client: Any, container: str) -> None:
    from docker.errors import APIError

    try:
        client.remove_container(container, force=True, v=True)
    except APIError as error:
        if error.status_code not in (404, 409):  # gone, or being removed
            raise


@contextmanager
def kept_engine(top: Path) -> Iterator[Engine]:
    """An engine with the images, which ends with this process.

    Args:
        top: a folder of this process's own, for the lock.
    """
    folder = Path(tempfile.mkdtemp(prefix="nemo-dock-", dir="/tmp"))
    lock = top / "in-use.lock"
    with lock.open("w") as use:
        fcntl.flock(use, fcntl.LOCK_EX)
        keeper = subprocess.Popen(
            [sys.executable, __file__, str(folder), str(lock)], start_new_session=True, stdin=subprocess.DEVNULL
        )
        try:
            engine = Engine(folder)
            wait_until_ready(engine)
            make_images(engine)
            yield engine
        finally:
            fcntl.flock(use, fcntl.LOCK_UN)  # closing would not do where a fork of this process has it open too
            keeper.wait(_SECONDS_TO_STOP)


@contextmanager
def own_engine(*, live_restore: bool = False) -> Iterator[Engine]:
    """An engine of its own, without images, for tests that stop it.

    Args:
        live_restore: whether its containers go on without it.
    """
    folder = Path(tempfile.mkdtemp(prefix="nemo-dock-", dir="/tmp"))
    (folder / "daemon.json").write_text(json.dumps({"live-restore": live_restore}))
    process = launched(folder)
    try:
        wait_until_ready(Engine(folder))
        yield Engine(folder)
    finally:
        stop(folder, process)


def launched(folder: Path) -> subprocess.Popen[bytes]:
    """Starts an engine; its process once it answers, or no more is to be hoped for.

    On a busy machine one may wait too long for its containerd: it ends before it has answered, and is started anew.
    """
    process, tries = launch(folder), 1
    end = time.monotonic() + _SECONDS_TO_START
    while not Engine(folder).ready() and time.monotonic() < end:
        if process.poll() is not None and tries < _TRIES:
            end_shims(folder)
            process, tries = launch(folder), tries + 1
        time.sleep(0.1)
    return process


def wait_until_ready(engine: Engine, seconds: float = _SECONDS_TO_START) -> None:
    """Returns once the engine answers."""
    end = time.monotonic() + seconds
    while not engine.ready():
        if time.monotonic() > end:
            log = engine.folder / "docker.log"
            raise RuntimeError(f"no engine:\n{log.read_text()[-4000:] if log.exists() else 'it was not started'}")
        time.sleep(0.1)


def keep(folder: Path, lock: Path) -> None:
    """The keeper: starts the engine, waits until nobody uses it, stops it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    process = launched(folder)
    with lock.open("w") as use:
        fcntl.flock(use, fcntl.LOCK_EX)
        stop(folder, process)


def launch(folder: Path) -> subprocess.Popen[bytes]:
    """Starts `dockerd` with everything of it below `folder`; the machine's firewall and routes stay as they are."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    runtime = tools / "clamped-runc"
    runtime.write_text(_RUNC)
    Path(f"{runtime}.caps").write_text(json.dumps([f"CAP_{name}" for name in _CAPS.split()]))
    hook = tools / "nvidia-container-runtime-hook"
    hook.write_text("#!/bin/sh\nexit 0\n")
    for tool in (runtime, hook):
        tool.chmod(0o755)
    config = folder / "daemon.json"
    own = json.loads(config.read_text()) if config.exists() else {}
    config.write_text(json.dumps({**own, "runtimes": {"nvidia": {"path": str(runtime)}}}))
    network = [f"--{name}=false" for name in ("iptables", "ip6tables", "ip-masq", "ip-forward")]
    with (folder / "docker.log").open("ab") as log:
        return subprocess.Popen(
            [
                "dockerd", "--config-file", str(config), "--data-root", str(folder / "data"),
                "--exec-root", str(folder / "exec"), "--pidfile", str(folder / "docker.pid"),
                "--host", Engine(folder).host, "--group", "root", "--bridge=none", *network,
            ],
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}:/usr/sbin:/sbin"},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def stop(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Ends all containers and networks, then the engine; takes away mounts and the folder.

    An engine that a test has stopped is started once more for that: its networks are still in the kernel.
    """
    if process.poll() is not None or not Engine(folder).ready():
        process.wait(_SECONDS_TO_START)
        end_shims(folder)
        process = launched(folder)
    try:
        wait_until_ready(Engine(folder))
        Engine(folder).empty()
    finally:
        _terminate(folder, process)


def _terminate(folder: Path, process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    end_shims(folder)
    _delete_bridges(folder)
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        place = line.split()[1]
        if place.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", place], check=False)
    shutil.rmtree(folder, ignore_errors=True)


def _delete_bridges(folder: Path) -> None:
    """Those of networks that an engine still had: they would stay in this machine's network for ever.

    The engine's own notes of its networks name the ids, which the bridges are called after.
    """
    notes = folder / "data" / "network" / "files" / "local-kv.db"
    known = notes.read_bytes() if notes.exists() else b""
    for bridge in Path("/sys/class/net").glob("br-*"):
        if bridge.name.removeprefix("br-").encode() in known:
            subprocess.run(["ip", "link", "delete", bridge.name], check=False)


def end_shims(folder: Path) -> None:
    """What an engine that was killed has left: containerd and the containers' keepers. They are gone then.

    So are the notes of its processes: their ids may be somebody else's by now, and the next engine would not start.
    """

    def ended() -> bool:
        left = _processes_of(folder)
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return not left

    until(ended, "the end of the engine's processes")
    for note in ("docker.pid", "exec/containerd/containerd.pid"):
        (folder / note).unlink(missing_ok=True)


def _processes_of(folder: Path) -> set[int]:
    """Processes whose command line names the folder; of one that only waits to be reaped there is none."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(folder).encode() in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
    return found - {os.getpid()}


def make_images(engine: Engine) -> None:
    """Imports and builds the images."""
    client = engine.client()
    repository, _, tag = BASE.partition(":")
    client.import_image(src=str(base_tar()), repository=repository, tag=tag)
    busybox = io.BytesIO()
    with tarfile.open(fileobj=busybox, mode="w") as tar:
        tar.add(shutil.which("busybox") or "/bin/busybox", "bin/busybox")
        for name in ("sh", "sleep", "chown"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    repository, _, tag = WITHOUT_BASH.partition(":")
    client.import_image_from_data(busybox.getvalue(), repository=repository, tag=tag)
    build(
        client,
        WITH_ENTRYPOINT,
        f'FROM {BASE}\nENV FROM_IMAGE=yes\nUSER nobody\nENTRYPOINT ["/bin/echo", "entrypoint"]\nCMD ["cmd"]\n',
    )
    client.close()


def build(client: Any, tag: str, dockerfile: str) -> None:
    """Builds an image from the text of a Dockerfile."""
    for event in client.build(fileobj=io.BytesIO(dockerfile.encode()), tag=tag, rm=True, decode=True):
        assert "error" not in event, event


def base_tar() -> Path:
    """The root file system of `BASE`: made once, kept in the tests' cache (about 190 MB, 15 to 35 s)."""
    CACHE.mkdir(parents=True, exist_ok=True)
    made = CACHE / f"debian-12-{hashlib.sha256(_INCLUDE.encode()).hexdigest()[:12]}.tar"
    with (CACHE / "debian-12.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            scratch = made.with_suffix(".new.tar")
            link = 'ln -s python3 "$1/usr/bin/python"'
            subprocess.run(
                ["mmdebstrap", "--quiet", "--variant=essential", f"--include={_INCLUDE}",
                 f"--customize-hook={link}", "bookworm", str(scratch), "http://deb.debian.org/debian"],
                check=True, env={**os.environ, "TMPDIR": "/tmp"},
            )  # fmt: skip
            scratch.replace(made)
    return made


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
