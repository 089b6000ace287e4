"""The engine that is not there, not allowed, not here, or goes away while a job runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import support
from lab_docker import (
    BASE,
    Engine,
    base_tar,
    end_shims,
    launched,
    needs_docker,
    own_engine,
    wait_until_ready,
)
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


HASTY = """\
from nemo_runspec.backends.docker import work
from nemo_runspec.records import absence
work._SECONDS_WITHOUT_ENGINE = 1.0
absence.SPAN, absence.APART = 2.0, 0.5
"""
"""A `sitecustomize.py`: an engine may be away for a second before that is said, and a minute is two seconds."""


@needs_docker
class TestAnEngineThatGoesAway:
    """In an engine of its own."""

    @pytest.fixture(params=[False])
    def engine(self, request):
        with own_engine(live_restore=request.param) as engine:
            client = engine.client()
            client.import_image(src=str(base_tar()), repository="lab/python", tag="latest")
            client.close()
            yield engine

    @pytest.fixture
    def hasty(self, box: Project, engine: Engine, tmp_path: Path) -> Project:
        (tmp_path / "hasty").mkdir()
        (tmp_path / "hasty" / "sitecustomize.py").write_text(HASTY)
        return replace(box, extra={"DOCKER_HOST": engine.host, "PYTHONPATH": str(tmp_path / "hasty")})

    def start(self, box: Project, mode: str = "--run") -> Any:
        """A job that waits for the file `go` and then says so."""
        lines = (
            "import os, pathlib, time; print('up', flush=True)",
            "go = pathlib.Path(os.environ['NEMO_RUN_DIR'], 'go')",
        )
        box.write("main.py", "\n".join((*lines, "while not go.exists(): time.sleep(0.05)", "print('and down')")))
        child = support.start(box, "run", "./main.py", mode, "box")
        until(lambda: b"up" in self.log(box))
        return child

    def folder(self, box: Project) -> Path:
        return next((box.state / "jobs").glob("main-*"), box.state / "none")

    def log(self, box: Project) -> bytes:
        file = self.folder(box) / "logs" / "job.log"
        return file.read_bytes() if file.exists() else b""

    def record(self, box: Project) -> dict[str, Any]:
        return json.loads((self.folder(box) / "record.json").read_text())

    def state(self, box: Project) -> str:
        return self.record(box)["states"][-1]["state"]

    def become(self, box: Project, state: str) -> None:
        until(lambda: self.state(box), "its state", lambda now: now == state)

    def away(self, engine: Engine, number: int) -> None:
        os.kill(engine.pid, number)
        until(lambda: not engine.ready())

    @pytest.mark.parametrize("engine", [True], indirect=True)
    def test_a_container_that_goes_on_is_found_again(self, hasty, engine):
        """Nothing is believed while the engine is away; all that the job has written is in its log."""
        child = self.start(hasty)
        before = engine.pid
        self.away(engine, signal.SIGTERM)
        self.become(hasty, "unknown")
        assert child.poll() is None
        started_again(engine, before)
        self.become(hasty, "running")
        (hasty.state / "run").mkdir(parents=True, exist_ok=True)
        (hasty.state / "run" / "go").touch()
        _, err = child.communicate(timeout=300)
        assert child.returncode == 0, err
        assert "unknown: the Docker engine at unix://" in err
        assert self.log(hasty) == b"up\nand down\n"
        states = [step["state"] for step in self.record(hasty)["states"]]
        assert states[-4:] == ["running", "unknown", "running", "succeeded"]
        assert engine.containers() == []

    def test_a_container_that_ends_with_it(self, hasty, engine):
        """What became of it the engine says once it is back."""
        child = self.start(hasty)
        before = engine.pid
        self.away(engine, signal.SIGKILL)
        self.become(hasty, "unknown")
        started_again(engine, before)
        _, err = child.communicate(timeout=300)
        assert child.returncode not in (0, None)
        assert self.state(hasty) == "failed"
        assert "as the Docker engine was stopped or restarted" in err
        assert engine.containers() == []

    def test_an_engine_that_comes_back_without_its_containers(self, hasty, engine):
        child = self.start(hasty)
        before = engine.pid
        self.away(engine, signal.SIGKILL)
        self.become(hasty, "unknown")
        end_shims(engine.folder)
        for left in (engine.folder / "data" / "containers").iterdir():
            shutil.rmtree(left)
        started_again(engine, before)
        _, err = child.communicate(timeout=300)
        assert child.returncode == 1
        assert "does not have the job's container any more; believed once three looks over a minute agree" in err
        assert self.state(hasty) == "lost"

    @pytest.mark.parametrize("engine", [True], indirect=True)
    def test_cancelled_while_it_is_away(self, hasty, engine):
        """Not ended is not called ended; once the engine is there, it is."""
        child = self.start(hasty)
        before, name = engine.pid, self.folder(hasty).name
        self.away(engine, signal.SIGTERM)
        self.become(hasty, "unknown")
        done = support.process(hasty, "jobs", "cancel", name, "--grace", "1")
        assert done.code == 2, done.err
        assert "no Docker engine answers" in done.err
        _, err = child.communicate(timeout=300)
        assert child.returncode == 1
        assert "the job was not ended: the Docker engine at unix://" in err
        assert self.state(hasty) == "unknown"
        started_again(engine, before)
        assert len(engine.containers()) == 1
        support.process(hasty, "jobs", "cancel", name, "--grace", "1").succeeds()
        assert self.state(hasty) == "cancelled"
        assert engine.containers() == []

    def test_stopped_the_job_says_how_it_ended(self, hasty, engine):
        """The engine tells its containers to stop, so the job script can still leave its marker."""
        child = self.start(hasty)
        os.kill(engine.pid, signal.SIGTERM)
        _, err = child.communicate(timeout=300)
        assert child.returncode == 143, err
        until(lambda: not engine.ready())
        assert self.state(hasty) == "failed"


def started_again(engine: Engine, pid: int) -> None:
    """Starts an engine again that was stopped, once its process is gone."""
    until(lambda: not Path(f"/proc/{pid}/exe").exists(), "the end of the engine")
    launched(engine.folder)
    wait_until_ready(engine)


def test_connect_names_the_place(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        connect(f"unix://{tmp_path}/x")
