"""Checks a local profile before it runs: what recipes need on this machine."""

from __future__ import annotations

from collections.abc import Iterator

from nemo_runspec import paths
from nemo_runspec.backends import machine
from nemo_runspec.backends.local.fields import check_system
from nemo_runspec.check import Check, CheckRequest, of_error, ok
from nemo_runspec.errors import UserError

_ROOM = "make room, or set job_dir and NEMOTRON_HOME to a directory with room"


def checks(question: CheckRequest) -> Iterator[Check]:
    """The system, Python, uv, nemotron's folders and the profile's, room, GPUs. Nothing is written that stays."""
    yield _system()
    yield machine.python()
    yield machine.program(machine.UV)
    yield machine.own_folder()
    named = question.env.get("job_dir")
    where = paths.expand_user(str(named), "job_dir").absolute() if named else paths.run_dir()
    yield machine.folder("job_dir", where, "set job_dir to a directory you may write to")
    yield machine.room("room", where, _ROOM)
    yield machine.gpus(question.env)


def _system() -> Check:
    try:
        return ok("system", check_system())
    except UserError as error:
        return of_error("system", error)
