"""Checks of this machine: Python, uv, git, ssh, nemotron's own folders, room, GPUs."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_runspec import paths
from nemo_runspec.check import Check, failed, of_error, ok, warning
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.text import size

_SECONDS = 10.0
_LITTLE, _TOO_LITTLE = 10e9, 100e6
"""Bytes: less than the first is a warning (a package and an environment take some GB), than the second a failure."""


@dataclass(frozen=True, slots=True)
class NeededTool:
    """A program that this machine needs. `why`: what it is needed for; `remedy`: how to get it."""

    name: str
    option: str
    why: str
    remedy: str


UV = NeededTool(
    "uv",
    "--version",
    "it makes the environments of recipes",
    "curl -LsSf https://astral.sh/uv/install.sh | sh, or pip install uv",
)
GIT = NeededTool(
    "git", "--version", 'packager = "git" and ${auto_mount:…} need it', "install git, such as: apt-get install git"
)
SSH = NeededTool(
    "ssh", "-V", 'tunnel = "ssh" needs it', "install OpenSSH's client, such as: apt-get install openssh-client"
)


def python() -> Check:
    """The Python that runs nemotron."""
    return ok("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def program(asked: NeededTool, *, needed: bool = True) -> Check:
    """Checks whether a program is there, and its version."""
    if shutil.which(asked.name) is None:
        missing = failed if needed else warning
        return missing(asked.name, f"not on PATH; {asked.why}", asked.remedy)
    code, said = said_by(asked.name, asked.option)
    if code:
        return failed(asked.name, f"does not run: {said or f'exit code {code}'}", asked.remedy)
    return ok(asked.name, said)


def said_by(*command: str) -> tuple[int, str]:
    """Exit code and first line of a command of this machine; 127 where it is not there, 124 where it does not end."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, stdin=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {_SECONDS:g} s"
    except OSError as error:
        return 127, error.strerror or str(error)
    lines = text_lines((done.stdout or done.stderr).strip())
    return done.returncode, lines[0].strip() if lines else ""


def own_folder() -> Check:
    """nemotron's own folder, under which jobs, environments and outputs lie."""
    try:
        return folder("own folder", paths.home(), "set NEMOTRON_HOME to a directory you may write to")
    except UserError as error:
        return of_error("own folder", error)


def folder(name: str, path: Path, mend: str) -> Check:
    """Whether a folder can be written or made. It is not made; a file without a name is put in it, or above it."""
    nearest = _nearest(path)
    try:
        with tempfile.TemporaryFile(dir=nearest) as probe:
            probe.write(b"nemotron")
    except OSError as error:
        return failed(name, f"{path} cannot be written: {error.strerror}", mend)
    return ok(name, f"{path} is writable" if nearest == path else f"{path} can be made")


def room(name: str, path: Path, mend: str) -> Check:
    """How much a folder's file system has left."""
    nearest = _nearest(path)
    usage = shutil.disk_usage(nearest)
    return enough(name, usage.free, usage.total, str(nearest), mend)


def enough(name: str, free: float, total: float, where: str, mend: str) -> Check:
    """Checks whether so many bytes are enough."""
    seen = f"{size(free)} of {size(total)} free at {where}"
    if free < _TOO_LITTLE:
        return failed(name, f"only {seen}", mend)
    return warning(name, f"only {seen}", mend) if free < _LITTLE else ok(name, seen)


def gpus(env: Mapping[str, Any]) -> Check:
    """Checks whether this machine has as many GPUs as the profile asks for, as nvidia-smi counts them."""
    wanted = env.get("gpus_per_node")
    found = _gpus_here()
    seen = "nvidia-smi sees no GPU" if found == 0 else f"nvidia-smi sees {found}"
    if found is None:
        seen = "nvidia-smi is not there or does not answer"
    if not wanted:
        said = "the profile asks for none" if wanted == 0 else "the profile names no number; the recipe's counts"
        return ok("GPUs", f"{seen}; {said}")
    if (found or 0) >= wanted:
        return ok("GPUs", f"{seen}; the profile asks for {wanted}")
    return failed(
        "GPUs",
        f"{seen}; the profile asks for {wanted}",
        f"set gpus_per_node = {found or 0}, or install the driver if there are more",
    )


def _nearest(path: Path) -> Path:
    """The path itself, or the nearest one above it that exists."""
    return next(place for place in (path, *path.parents) if place.exists() or place.parent == place)


def _gpus_here() -> int | None:
    try:
        done = subprocess.run(
            ["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=_SECONDS, check=False,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else sum(line.startswith("GPU ") for line in text_lines(done.stdout))
