"""`kill -9` of the client at any moment: the job runs once or not at all, is not lost sight of, its record is true."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from behaviour.bench import Bench
from waiting import until

from nemo_runspec.records import STATES
from reliability.conftest import on
from reliability.tally import Tally, size

SCRIPT = """\
import os, pathlib, time, uuid
top = pathlib.Path(os.environ["NEMOTRON_JOB_DIR"])
(top / f"ran-{os.environ.get('NODE_RANK', '0')}-{uuid.uuid4().hex}").touch()
time.sleep(0.5)
(top / "finished").touch()
"""
LONGEST = {"local": 2.0, "docker": 3.0, "slurm": 4.0, "lepton": 3.0, "dgxcloud": 3.0}
"""Seconds within which the client is killed: from its start until after the job's end."""


def records(bench: Bench) -> dict[str, dict[str, Any]]:
    files = (bench.project.state / "jobs").glob("[!.]*/record.json")
    return {file.parent.name: json.loads(file.read_text("utf-8")) for file in files}


@pytest.mark.slow
@on("local", "docker", "slurm", "lepton", "dgxcloud")
def test_kills_of_the_client(bench, tally):
    noted = tally("kills of the client", bench.rig.name, "kill -9")
    for _ in range(size(3, 100 if bench.rig.lab else 400)):
        before = set(records(bench))
        way, pause = noted.dice.choice(["--run", "--batch"]), noted.dice.uniform(0.1, LONGEST[bench.rig.name])
        child = bench.start(SCRIPT, way=way)
        time.sleep(pause)
        child.kill() if noted.dice.random() < 0.5 else os.killpg(child.pid, signal.SIGKILL)
        child.communicate(timeout=120)
        noted.injected += 1
        made = set(records(bench)) - before
        noted.expect(len(made) <= 1, (way, pause, made))
        for name in made:
            check(noted, bench, name, (way, round(pause, 2)))
    left = until(lambda: left_over(bench), "what a killed client left is taken away", lambda found: not found)
    noted.expect(not left, left)


def left_over(bench: Bench) -> list[str]:
    """Records that were never whole, once all is looked at. A list reads only: it takes nothing away."""
    bench.nemotron("jobs", "status").succeeds()
    return [path.name for path in (bench.project.state / "jobs").glob(".new-*")]


def check(noted: Tally, bench: Bench, name: str, case: object) -> None:
    """The job's end is found, and is what really happened."""
    bench.nemotron("jobs", "wait", name, "--timeout", "120s")
    record = records(bench)[name]
    state = record["states"][-1]["state"]
    noted.expect(state in STATES, (case, record))
    folder = directory(bench, name)
    ran = list(folder.glob("ran-*")) if folder else []
    finished = bool(folder and (folder / "finished").exists())
    noted.expect(len(ran) <= 1, (case, name, "ran more than once", ran))
    noted.expect(state != "succeeded" or (finished and record["exit_code"] == 0), (case, name, "no success", record))
    noted.expect(STATES[state].final or state in ("lost", "unknown"), (case, name, "never ended", record))
    noted.expect(state != "failed" or not finished, (case, name, "no failure", record))
    left = until(
        lambda: bench.setting.leftovers(name, bench.folder(name)) if folder else [], "its end", lambda x: not x
    )
    noted.expect(not left, (case, name, left))


def directory(bench: Bench, name: str) -> Path | None:
    """Where the job's own files lie, None where it never had a place."""
    try:
        found = bench.setting.job_dir(bench.folder(name))
    except KeyError:
        return None
    return found if found.is_dir() else None
