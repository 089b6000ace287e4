"""Execution backends by name. The built-in ones stand in a static table; entry points are looked at only for others."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_runspec.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from nemo_runspec.backends.base import Backend

BUILTIN: dict[str, str] = {
    "local": "nemo_runspec.backends.local",
    "docker": "nemo_runspec.backends.docker",
    "slurm": "nemo_runspec.backends.slurm",
    "dgxcloud": "nemo_runspec.backends.dgxcloud",
    "lepton": "nemo_runspec.backends.lepton",
}
EXAMPLE = "slurm"
"""Whose keys the help shows where no profile says which executor is meant."""

DEFAULT_EXECUTOR = "local"
"""The one that is meant where none is named."""

ENTRY_POINT_GROUP = "nemo_runspec.backends"

LISTED: Mapping[str, str] = {
    "lepton": "Lepton: shapes, node groups, nodes, volumes, secrets.",
    "dgxcloud": "DGX Cloud: projects, volume claims, workloads.",
}
"""Built-in backends with listings → a line on them, so that the help imports no backend (30 ms for some of them)."""


@cache
def get_backend(name: str) -> Backend:
    """The backend of that name.

    Raises:
        UserError: no built-in backend and no entry point of that name.
    """
    if name in BUILTIN:
        backend: Backend = import_module(BUILTIN[name]).BACKEND
        return backend
    plugin = _plugins().get(name)
    if plugin is None:
        known = known_executors()
        raise UserError(
            f"unknown executor '{name}'",
            remedy=did_you_mean(name, known) or f"known executors: {', '.join(known)}",
        )
    return _loaded(plugin)


def listed_executors() -> dict[str, str]:
    """Executors whose platform has listings (`Backend.listings`) → a line on them."""
    others = [find_backend(name) for name in _plugins() if name not in BUILTIN]
    return {**LISTED, **{backend.name: backend.summary for backend in others if backend and backend.listings}}


def find_backend(name: str) -> Backend | None:
    """The backend of that name; None where it is not installed (any more), or cannot be used."""
    try:
        return get_backend(name)
    except UserError:
        return None


def known_executors() -> tuple[str, ...]:
    """Names of the built-in backends, then those of other distributions (whose entry points are looked up)."""
    return (*BUILTIN, *(name for name in _plugins() if name not in BUILTIN))


@cache
def _plugins() -> Mapping[str, EntryPoint]:
    if not _named_anywhere():
        return {}
    from importlib.metadata import entry_points

    return {point.name: point for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)}


def _named_anywhere() -> bool:
    """True if any installed distribution has the group: tells in 3 ms what `entry_points` needs 40 ms for."""
    files = (file for path in sys.path for file in Path(path or ".").glob("*-info/entry_points.txt"))
    return any(_names_the_group(file) for file in files)


def _names_the_group(file: Path) -> bool:
    try:
        return ENTRY_POINT_GROUP.encode() in file.read_bytes()
    except OSError:  # a distribution that this user may not read is none for him
        return False


def _loaded(point: EntryPoint) -> Backend:
    """A backend of another distribution.

    Raises:
        UserError: it cannot be imported, or is none: what is wrong there stops no other executor.
    """
    from nemo_runspec.backends.base import Backend

    try:
        backend = point.load()
    except Exception as error:  # code of somebody else's, which may fail in any way
        raise _unusable(point, f"{type(error).__name__}: {error}") from error
    if not isinstance(backend, Backend):
        raise _unusable(point, f"{point.value} is no nemo_runspec.backends.base.Backend")
    if backend.name != point.name:
        raise _unusable(point, f"its backend calls itself '{backend.name}'")
    return backend


def _unusable(point: EntryPoint, why: str) -> UserError:
    package = point.dist.name if point.dist else point.value
    return UserError(
        f"executor '{point.name}' cannot be used: {why}",
        where=f"entry point of {package}",
        remedy=f"update {package}, or uninstall it",
    )
