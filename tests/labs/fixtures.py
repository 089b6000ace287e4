"""pytest's side of the labs that are servers in the test's own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar, cast

import pytest

from labs.web import WebLab

L = TypeVar("L", bound=WebLab)

_RUNNING: dict[str, WebLab] = {}


def served(
    name: str, make: Callable[[Path], L], request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[L]:
    """A fixture's whole work: a lab as new; one server serves all tests of this process.

    After the test everything of it is ended, and a call that no document knows fails it.

    Args:
        name: the lab's. `make`: makes it, given a folder of its own.
    """
    lab = cast("L | None", _RUNNING.get(name))
    if lab is None:
        lab = make(tmp_path_factory.mktemp(f"{name}-lab"))
        _RUNNING[name] = lab
        request.config.add_cleanup(lambda: _RUNNING.pop(name).close())
    lab.reset()
    yield lab
    print(lab.diagnose())  # pytest shows this below the report of a test that failed
    try:
        lab.tidy()
    finally:
        lab.reset()
