"""The engine that is not there, not allowed, not here, or goes away while a job runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import support
from jobkit import kill
from lab_docker import BASE, Engine, base_tar, needs_docker, own_engine
from support import Project
from waiting import until

from nemo_runspec.backends.docker.engine import connect, refused
from nemo_runspec.errors import UserError


@pytest.fixture
def box(project: Project) -> Project:
    """A project with a Docker profile; which engine there is, a test says."""
    project.write("env.toml", f'[box]\nexecutor = "docker"\ncontainer_image = "{BASE}"\n')
    project.write("main.py", "print('ran')")
    return project


def run(box: Project, host: str) -> support.Outcome:
    return support.process(box, "run", "./main.py", "--run", "box", DOCKER_HOST=host)


@pytest.mark.slow
def test_no_engine_is_one_message_and_nothing_is_left(box, tmp_path):
    run(box, f"unix://{tmp_path}/gone.sock").refuses("no Docker engine answers", "gone.sock", "DOCKER_HOST")
    assert not (box.state / "jobs").exists()


def test_a_socket_that_nobody_listens_on_is_no_engine(box, tmp_path):
    with socket.socket(socket.AF_UNIX) as closed:
        closed.bind(str(tmp_path / "dead.sock"))
    run(box, f"unix://{tmp_path}/dead.sock").refuses("no Docker engine answers", "Connection refused")


@pytest.mark.slow
@pytest.mark.parametrize("host", ["tcp://10.0.0.1:2375", "ssh://me@gpu-box", "https://127.0.0.1:2376"])
def test_an_engine_of_another_machine_is_refused(box, host):
    run(box, host).refuses("DOCKER_HOST names an engine that jobs cannot use", host)


@pytest.mark.slow
def test_what_is_no_address_is_refused(box):
    run(box, "nonsense").refuses("DOCKER_HOST is not the address of a Docker engine: nonsense")


@pytest.mark.slow
def test_a_port_without_an_engine_is_refused(box):
    with socket.socket() as silent:  # bound, so that nobody else can be, and listening to nobody
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        run(box, f"tcp://127.0.0.1:{port}").refuses("no Docker engine answers", "refused")


@pytest.mark.slow
def test_a_dry_run_asks_no_engine(box):
    out = support.process(box, "run", "./main.py", "--run", "box", "--dry-run", DOCKER_HOST="unix:///gone")
    assert '"Entrypoint"' in out.succeeds().out


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ('exec: "bash": executable file not found in $PATH: unknown', "the image needs bash"),
        ('could not select device driver "" with capabilities: [[compute utility]]', "no driver for GPUs"),
        ("something new", "Docker cannot start the container: something new"),
    ],
)
def test_a_refusal_keeps_the_engines_words(words, meaning):
    error = refused("start the container", words, "image")
    assert meaning in error.what
    assert words in error.what


@needs_docker
def test_no_permission_is_one_message(docker_engine: Engine, tmp_path: Path):
    """Asked by a user who may not write to the socket."""
    Path(docker_engine.folder).chmod(0o755)
    code = (
        "import os; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "from nemo_runspec.backends.docker.engine import connect\nconnect()"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import nemo_runspec.backends.docker.engine\n{code}"],
        env={**os.environ, "DOCKER_HOST": docker_engine.host, "PYTHONPATH": str(support.REPOSITORY / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "UserError: no permission to use the Docker engine at" in done.stderr
    assert "usermod -aG docker" in done.stderr


@needs_docker
class TestAnEngineThatGoesAway:
    """In an engine of its own."""

    @pytest.fixture
    def engine(self):
        with own_engine() as engine:
            client = engine.client()
            client.import_image(src=str(base_tar()), repository="lab/python", tag="latest")
            client.close()
            yield engine

    def start(self, box: Project, engine: Engine) -> tuple[Any, Project]:
        box.write("main.py", "import time; print('up', flush=True); time.sleep(600)")
        box = replace(box, extra={"DOCKER_HOST": engine.host})
        child = support.start(box, "run", "./main.py", "--run", "box")
        until(lambda: any(b"up" in log.read_bytes() for log in (box.state / "jobs").glob("*/logs/job.log")))
        return child, box

    def record(self, box: Project) -> dict[str, Any]:
        (folder,) = (box.state / "jobs").glob("main-*")
        return json.loads((folder / "record.json").read_text())

    def test_killed_the_job_is_lost(self, box, engine):
        child, box = self.start(box, engine)
        kill(engine.pid)
        _, err = child.communicate(timeout=300)
        assert child.returncode == 1
        assert "the Docker engine was stopped while the job ran" in err
        assert self.record(box)["states"][-1]["state"] == "lost"

    def test_stopped_the_job_says_how_it_ended(self, box, engine):
        """The engine tells its containers to stop, so the job script can still leave its marker."""
        child, box = self.start(box, engine)
        os.kill(engine.pid, signal.SIGTERM)
        _, err = child.communicate(timeout=300)
        assert child.returncode == 143, err
        until(lambda: not engine.ready())
        assert self.record(box)["states"][-1]["state"] == "failed"


def test_connect_names_the_place(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        connect(f"unix://{tmp_path}/x")
