"""Metrics of a job on a cluster as they are fetched once it is over: with the login node's python3, and without."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nemo_runspec.backends.slurm.observe import collect_results
from nemo_runspec.jobside.downsample import POINTS
from nemo_runspec.records.metrics import last_values
from nemo_runspec.records.status import JobStatus
from nemo_runspec.transport.local import LocalHost


@pytest.fixture
def without_python(tmp_path, monkeypatch):
    """A login node that has everything but python3."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in filter(None, os.get_exec_path()):
        for tool in Path(folder).glob("*"):
            if not tool.name.startswith("python") and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    monkeypatch.setenv("PATH", str(tools))


def fetched(folder: Path, lines: int) -> bytes:
    """What comes of a job that wrote so many lines, `accuracy` in the first one alone."""
    records = [
        {"step": step, "loss": lines - step, **({"accuracy": 0.5} if step == 0 else {})} for step in range(lines)
    ]
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (found,) = collect_results(
        LocalHost(), [{"job_dir": str(folder), "name": "j", "id": "7"}], [JobStatus("succeeded")]
    )
    return found.history


@pytest.mark.parametrize("lines", [3, 20_000])
def test_every_last_value_comes_and_what_comes_is_bounded(tmp_path, lines):
    history = fetched(tmp_path / "job", lines)
    assert last_values(history.splitlines()) == {"step": lines - 1, "loss": 1, "accuracy": 0.5}
    assert len(history.splitlines()) <= 2 * POINTS


@pytest.mark.parametrize("lines", [3, 20_000])
def test_without_python_there(tmp_path, without_python, lines):
    history = fetched(tmp_path / "job", lines)
    assert last_values(history.splitlines()) == {"step": lines - 1, "loss": 1, "accuracy": 0.5}
    assert len(history.splitlines()) <= 2 * POINTS
