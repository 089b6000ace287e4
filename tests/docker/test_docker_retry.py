"""Docker jobs with repositories mounted, run once more, and as sweeps: in a real engine, from the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import support
from job_scripts import kill
from lab_docker import Engine, needs_docker
from support import Project
from waiting import until

from nemo_runspec.records import JobStore

pytestmark = needs_docker

READS = "import pathlib\nprint('has', pathlib.Path('/opt/x/data').read_text().strip(), flush=True)\n"
WAITS = (
    "import os, pathlib, sys, time, yaml_free as y\n"
    "print('x is', y.value(sys.argv), flush=True)\n"
    "while not pathlib.Path(os.environ['NEMO_RUN_DIR'], 'go').exists(): time.sleep(0.05)\n"
)
VALUE = (
    "import pathlib\n\n\ndef value(argv):\n"
    "    return pathlib.Path(argv[argv.index('--config') + 1]).read_text().partition('x: ')[2].split()[0]\n"
)


@pytest.fixture(autouse=True)
def nothing_stays(docker_engine: Engine) -> Iterator[None]:
    yield
    left = docker_engine.containers(), docker_engine.networks()
    docker_engine.empty()
    assert left == ([], set())


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "data").write_text("first\n")
    support.make_repository(folder)
    return folder


def profile(box: Project, *lines: str) -> None:
    box.write("env.toml", box.env_file.read_text() + "\n".join(lines) + "\n")


def commit(folder: Path, text: str) -> None:
    (folder / "data").write_text(f"{text}\n")
    support.git(folder, "commit", "-aqm", text)


def logs(box: Project) -> list[str]:
    """The logs of all jobs, the oldest first."""
    store = JobStore(box.state / "jobs")
    return [(store.folder(r.name) / "logs" / "job.log").read_text() for r in reversed(store.list())]


def test_a_repository_is_mounted_and_a_retry_has_the_same_commit(box, library):
    profile(box, f'mounts = ["${{auto_mount:git+file://{library}@main,/opt/x}}"]')
    box.write("main.py", READS)
    shown = support.process(box, "run", "./main.py", "--run", "box", "--dry-run", "--json").succeeds().json
    assert shown["plan"]["unfilled"] == []
    assert not (box.state / "git").exists()
    support.process(box, "run", "./main.py", "--run", "box").succeeds()
    commit(library, "second")
    support.process(box, "jobs", "retry", "last").succeeds()
    support.process(box, "run", "./main.py", "--run", "box").succeeds()
    assert logs(box) == ["has first\n", "has first\n", "has second\n"]


def test_a_mount_that_is_not_there_is_still_shown_by_a_dry_run(box, library):
    profile(box, f'mounts = ["${{auto_mount:git+file://{library}@main,/opt/x}}", "./gone:/opt/y"]')
    box.write("main.py", READS)
    shown = support.process(box, "run", "./main.py", "--run", "box", "--dry-run", "--json").succeeds().json
    (line,) = shown["plan"]["unfilled"]
    assert f"{box.folder}/gone" in line


@pytest.mark.parametrize("packager", ['packager = "git"', 'packager = "pattern"\npackager_include_pattern = "data"'])
def test_a_retry_has_the_package_it_had(box, packager):
    profile(box, packager)
    box.write("main.py", READS.replace("/opt/x/", "/nemo_run/code/"))
    box.write("data", "first\n")
    support.make_repository(box.folder)
    support.process(box, "run", "./main.py", "--run", "box").succeeds()
    commit(box.folder, "second")
    shutil.rmtree(box.state / "packages", ignore_errors=True)
    support.process(box, "jobs", "retry", "last").succeeds()
    assert logs(box) == ["has first\n"] * 2


def test_a_retry_of_a_detached_job_is_detached(box):
    box.write("main.py", "print('ran')")
    support.process(box, "run", "./main.py", "--batch", "box").succeeds()
    assert support.process(box, "jobs", "wait", "last").code == 0
    support.process(box, "jobs", "retry", "last").succeeds()
    assert support.process(box, "jobs", "wait", "last").code == 0
    assert logs(box) == ["ran\n"] * 2


def sweep(box: Project, mode: str, *words: str) -> support.Outcome:
    """Three members of a recipe that says its `x` and waits for the file `go`, two of them at a time."""
    if not (box.folder / "recipes").exists():
        script = box.recipe("mine/stage", body=WAITS, default="x: 0\n")
        script.with_name("yaml_free.py").write_text(VALUE)
    call = ("mine", "stage", mode, "box", "-m", "x=1,2,3", "run.env.max_parallel=2", *words)
    return support.process(box, *call)


def go(box: Project) -> None:
    box.write("../home/.nemotron/run/go", "")


def states(box: Project) -> list[str]:
    return [record.state for record in JobStore(box.state / "jobs").list()]


def group(box: Project) -> str:
    (folder,) = (box.state / "sweeps").iterdir()
    return folder.name


def test_a_sweep_runs_two_at_a_time(box, docker_engine):
    sweep(box, "--batch").succeeds()
    until(lambda: sum(c["State"] == "running" for c in docker_engine.containers()) == 2)
    until(lambda: states(box) == ["running"] * 2)
    go(box)
    support.process(box, "jobs", "wait", group(box)).succeeds()
    assert states(box) == ["succeeded"] * 3
    assert sorted(logs(box)) == [f"x is {x}\n" for x in (1, 2, 3)]


def test_an_attached_sweep_succeeds(box):
    (box.state / "run").mkdir(parents=True)
    go(box)
    sweep(box, "--run").succeeds()
    assert states(box) == ["succeeded"] * 3


def test_a_cancelled_sweep_leaves_no_container(box, docker_engine):
    sweep(box, "--batch").succeeds()
    until(lambda: states(box) == ["running"] * 2)
    support.process(box, "jobs", "cancel", "--grace", "60", group(box)).succeeds()
    assert states(box) == ["cancelled"] * 2
    assert docker_engine.containers() == []


def test_a_sweep_whose_process_was_killed_can_be_cancelled(box, docker_engine):
    sweep(box, "--batch").succeeds()
    until(lambda: states(box) == ["running"] * 2)
    kill(launcher(box)["pid"])
    until(lambda: all("supervisor is gone" in r.reason for r in JobStore(box.state / "jobs").list()))
    support.process(box, "jobs", "cancel", group(box)).succeeds()
    assert states(box) == ["cancelled"] * 2
    assert docker_engine.containers() == []


def launcher(box: Project) -> dict[str, Any]:
    record = next((box.state / "jobs").glob("*/record.json"))
    found: dict[str, Any] = json.loads(record.read_text())["launcher"]
    return found
