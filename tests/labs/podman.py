"""Debian's podman, for real: storage of its own in a folder, and a base image that records what is run in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

needs_podman = pytest.mark.lab("podman", how="bash .ci/lab as root, then REQUIRE_LAB=1 uv run --group dev pytest")

CALLS = "calls"
"""A file at the top of the base image: what its programs were called with, a line each."""

_RECORDER = """\
#!/bin/sh
echo "${0##*/} $*" >> /calls
case "$*" in
  *"pip list"*) echo "torch==2.0.0" ;;
  "init --quiet "*) mkdir -p "$3" ;;
  "rev-parse HEAD") echo 0123456789abcdef0123456789abcdef01234567 ;;
esac
"""
_TOOLS = ("python", "git", "uv")
_APPLETS = ("sh", "grep", "echo", "rm", "cat", "mkdir", "set")


class Podman:
    """Podman with layers of its own below a folder. They are taken away with `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        layers = f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/layers"\nrunroot = "{folder}/run"\n'
        (folder / "storage.conf").write_text(layers)

    def run(self, *words: str) -> str:
        """What `podman WORDS` prints."""
        environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf")}
        done = subprocess.run(["podman", *words], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"podman {words}: {done.stderr}"
        return done.stdout

    def base(self, archive: Path) -> Path:
        """Makes a base image whose `python`, `git` and `uv` write down how they are called; an archive of it."""
        context = self.folder / "context"
        root = context / "root"
        (root / "bin").mkdir(parents=True)
        (root / "tmp").mkdir()
        shutil.copy(shutil.which("busybox") or "/bin/busybox", root / "bin" / "busybox")
        for applet in _APPLETS:
            (root / "bin" / applet).symlink_to("busybox")
        for tool in _TOOLS:
            (root / "bin" / tool).write_text(_RECORDER)
            (root / "bin" / tool).chmod(0o755)
        with tarfile.open(context / "root.tar", "w") as tar:
            tar.add(root, arcname=".")
        (context / "Dockerfile").write_text('FROM scratch\nADD root.tar /\nENV PATH=/bin\nCMD ["sh"]\n')
        self.run("build", "--isolation", "chroot", "--tag", "base:1", "--file", f"{context}/Dockerfile", str(context))
        self.run("save", "--format", "docker-archive", "--output", str(archive), "base:1")
        return archive

    def calls_in(self, archive: Path) -> tuple[str, list[str]]:
        """Of an archive, the name of its image and what was called as it was built."""
        name = self.run("load", "--input", str(archive)).strip().rpartition("Loaded image: ")[2]
        container = self.run("create", name).strip()
        mounted = Path(self.run("mount", container).strip())
        calls = (mounted / CALLS).read_text().splitlines()
        self.run("umount", container)
        self.run("rm", container)
        return name, calls
