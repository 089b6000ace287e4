"""nemotron's clock two hours ahead of the engine's, or behind, as where an engine has a machine of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import support
from job_scripts import kill
from lab_docker import needs_docker
from skewed_clock import OFFSETS, set_off
from support import Project
from waiting import until

pytestmark = needs_docker

SCRIPT = """
import os, pathlib, sys, time
print("begun", flush=True)
go = pathlib.Path(os.environ["NEMO_RUN_DIR"], "go")
while len(sys.argv) > 1 and not go.exists(): time.sleep(0.05)
print("over", flush=True)
sys.exit(7)
"""


def folder(box: Project) -> Path:
    return next((box.state / "jobs").glob("main-*"))


def record(box: Project) -> dict[str, Any]:
    return dict(json.loads((folder(box) / "record.json").read_text()))


@pytest.mark.parametrize("seconds", OFFSETS)
def test_an_attached_run(box: Project, tmp_path: Path, seconds: int):
    box.write("main.py", SCRIPT)
    done = support.process(box, "run", "./main.py", "--run", "box", **set_off(box, tmp_path, seconds))
    assert (done.code, done.out.count("over")) == (7, 1), done.err
    assert 0 <= record(box)["elapsed"] < 600


@pytest.mark.parametrize("seconds", OFFSETS)
def test_a_job_whose_supervisor_was_killed(box: Project, tmp_path: Path, seconds: int):
    """How it ended is told by its marker, whose times are another clock's."""
    clock = set_off(box, tmp_path, seconds)
    box.write("main.py", SCRIPT)
    support.process(box, "run", "./main.py", "--batch", "box", "--", "held", **clock).succeeds()
    until(lambda: b"begun" in (folder(box) / "logs" / "job.log").read_bytes())
    kill(record(box)["launcher"]["pid"])
    name = folder(box).name
    until(lambda: support.process(box, "jobs", "status", name, **clock).out, "it goes on", lambda out: "running" in out)
    (box.state / "run").mkdir(parents=True, exist_ok=True)
    (box.state / "run" / "go").touch()
    assert support.process(box, "jobs", "wait", name, **clock).code == 7
    ended = record(box)
    times = [step["time"] for step in ended["states"]]
    assert times == sorted(times), "no state begins before the one before it"
    assert 0 <= ended["elapsed"] < 600
    assert support.process(box, "jobs", "logs", name, **clock).out.count("over") == 1
