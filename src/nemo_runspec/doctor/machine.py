"""Checks of this machine whatever the profile: programs, folders, room, the env file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_runspec import paths
from nemo_runspec.backends.machine import GIT, SSH, UV, own_folder, program, python, room
from nemo_runspec.check import Check, failed, of_error, ok, skipped, warning
from nemo_runspec.errors import UserError
from nemo_runspec.text import count

if TYPE_CHECKING:
    from nemo_runspec.doctor.envcheck import CheckReport


def here() -> Iterator[Check]:
    """Everything about this machine that no profile changes."""
    yield python()
    yield program(UV)
    yield program(GIT, needed=False)
    yield program(SSH, needed=False)
    yield own_folder()
    yield room("room", _home(), "make room, or set NEMOTRON_HOME to a directory with room")


def env_file() -> Iterator[Check]:
    """The env file in force: found, readable, and nothing wrong with it."""
    from nemo_runspec.doctor.envcheck import check_env_file
    from nemo_runspec.profiles.find import DEFAULT_NAME, find_env_file
    from nemo_runspec.profiles.load import load_env_files

    try:
        env = load_env_files(find_env_file())
        if env is None:
            begin = "begin with: nemotron init; plain local runs need none"
            yield skipped(DEFAULT_NAME, f"none from {Path.cwd()} upwards", begin)
            return
        report = check_env_file(env)
    except UserError as error:
        yield of_error(DEFAULT_NAME, error)
        return
    files = " and ".join(str(file.path) for file in env.files)
    seen = f"{files}: {count(report.profiles, 'profile')}"
    if report.errors:
        yield failed(DEFAULT_NAME, f"{seen}, {_wrong(report)}", "nemotron env check names each")
    elif report.warnings:
        yield warning(DEFAULT_NAME, f"{seen}, {len(report.warnings)} odd", "nemotron env check names each")
    else:
        yield ok(DEFAULT_NAME, seen)


def _wrong(report: CheckReport) -> str:
    return f"{len(report.wrong)} of them wrong" if report.wrong else "and something beside them is wrong"


def _home() -> Path:
    try:
        return paths.home()
    except UserError:
        return paths.user_home()
