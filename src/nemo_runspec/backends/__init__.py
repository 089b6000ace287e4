"""Execution backends by name. The built-in ones stand in a static table; entry points are looked at only for others."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from nemo_runspec.backends.base import Backend
from nemo_runspec.errors import UserError, did_you_mean

BUILTIN: dict[str, str] = {
    "local": "nemo_runspec.backends.local",
    "docker": "nemo_runspec.backends.docker",
    "slurm": "nemo_runspec.backends.slurm",
    "dgxcloud": "nemo_runspec.backends.dgxcloud",
    "lepton": "nemo_runspec.backends.lepton",
}
ENTRY_POINT_GROUP = "nemo_runspec.backends"


@cache
def get_backend(name: str) -> Backend:
    """The backend of that name.

    Raises:
        UserError: no built-in backend and no entry point of that name.
    """
    if name in BUILTIN:
        backend: Backend = import_module(BUILTIN[name]).BACKEND
        return backend
    plugin = _plugin(name)
    if plugin is None:
        raise UserError(
            f"unknown executor '{name}'",
            remedy=did_you_mean(name, BUILTIN) or f"known executors: {', '.join(BUILTIN)}",
        )
    return plugin


def _plugin(name: str) -> Backend | None:
    from importlib.metadata import entry_points

    point = next(iter(entry_points(group=ENTRY_POINT_GROUP, name=name)), None)
    return point.load() if point else None
