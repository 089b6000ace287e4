"""An engine that says that it has no such container: that is not the truth at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from labs.web import WebLab

from nemo_runspec.backends.docker import work as work_module
from nemo_runspec.backends.docker.work import KILLED, ContainerWork


@pytest.fixture
def engine() -> Iterator[WebLab]:
    """One that knows no container, whatever it is asked."""
    lab = WebLab()
    yield lab
    lab.close()


def watched(engine: WebLab, folder: Path, *, output_ended: bool) -> ContainerWork:
    """The work of a container of that engine's."""
    from docker import APIClient

    client = APIClient(base_url=f"tcp://127.0.0.1:{engine.port}", version="1.41", timeout=10)
    output = SimpleNamespace(ended=output_ended)
    return ContainerWork(client, {"Id": "abc"}, output, folder)  # type: ignore[arg-type]


@pytest.mark.parametrize(("output_ended", "times"), [(True, (100.0, 101.0)), (False, (100.0, 101.0, 102.0, 159.0))])
def test_a_container_that_is_not_there(engine: WebLab, tmp_path: Path, output_ended: bool, times: tuple[float, ...]):
    """Three looks where its output has ended, too; one whose output goes on for a minute."""
    work = watched(engine, tmp_path, output_ended=output_ended)
    assert [work._look(now) for now in times] == [None] * len(times)
    assert work._look(161.0) == KILLED


def test_a_doubt_is_undone(engine: WebLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    work = watched(engine, tmp_path, output_ended=False)
    assert work._look(100.0) is None
    there = {"Id": "abc", "State": {"Status": "running"}}
    monkeypatch.setattr(work_module, "inspect", lambda *_: there)
    assert work._look(130.0) is None
    monkeypatch.undo()
    assert [work._look(now) for now in (161.0, 162.0, 163.0)] == [None] * 3
