"""Outputs belong to the caller: a second user of this machine runs jobs in the engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from job_scripts import kill
from lab_docker import BASE, Engine, build, needs_docker
from support import Project
from waiting import until

pytestmark = needs_docker

USER = 12345
_AS_USER = (
    "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
    # To read this Python, which may lie in root's home; it gives no right to write.
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip


@pytest.fixture
def theirs(box: Project, docker_engine: Engine) -> Project:
    """The project, as that user's own."""
    Path(docker_engine.folder).chmod(0o755)
    (docker_engine.folder / "docker.sock").chmod(0o666)
    for top in (box.folder, box.home):
        for path in (top, *top.rglob("*")):
            os.chown(path, USER, USER)
    return box


def run(project: Project, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    file = project.write("main.py", script)
    os.chown(file, USER, USER)
    return subprocess.run(
        [*_AS_USER, sys.executable, "-m", "nemotron", "run", "./main.py", "--run", "box", *words],
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def owners(project: Project) -> dict[str, int]:
    """Who owns what there is of jobs."""
    return {str(path): path.lstat().st_uid for path in project.state.rglob("*")}


WRITES = """
import getpass, os, pathlib
run = pathlib.Path(os.environ["NEMO_RUN_DIR"])
(run / "deep" / "er").mkdir(parents=True, exist_ok=True)
(run / "deep" / "er" / "out").write_text("x")
(pathlib.Path.home() / ".cache").mkdir(parents=True, exist_ok=True)
pathlib.Path("here").write_text("x")
pathlib.Path("link").symlink_to("/etc/passwd")
print("user", os.getuid(), getpass.getuser(), pathlib.Path.home(), os.environ.get("LOGNAME"))
"""


def test_everything_a_job_writes_is_the_callers(theirs):
    done = run(theirs, WRITES)
    assert done.returncode == 0, done.stderr
    home = theirs.state / "run" / "home"
    assert f"user {USER} user{USER} {home} user{USER}\n" in done.stdout
    assert (home / ".cache").is_dir()
    assert set(owners(theirs).values()) == {USER}


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)", "bytearray(400 << 20)"])
def test_what_root_writes_in_the_container_becomes_the_callers(theirs, end):
    """Also where the job was killed."""
    lines = ['user = "root"', 'additional_kwargs = { mem_limit = "60m", memswap_limit = "60m" }']
    theirs.write("env.toml", theirs.env_file.read_text() + "\n".join(lines) + "\n")
    done = run(theirs, f"{WRITES}\n{end}")
    assert "user 0 root /root None" in done.stdout, done.stderr
    assert (done.returncode == 0) == (end == "")
    assert set(owners(theirs).values()) == {USER}
    assert Path("/etc/passwd").stat().st_uid == 0


def test_files_that_stay_roots_are_said(theirs, docker_engine):
    """The image has no chown."""
    client = docker_engine.client()
    build(client, "lab/no-chown:latest", f"FROM {BASE}\nRUN rm -f /bin/chown /usr/bin/chown\n")
    client.close()
    text = theirs.env_file.read_text().replace(BASE, "lab/no-chown:latest")
    theirs.write("env.toml", text + 'user = "root"\n')
    done = run(theirs, WRITES)
    assert done.returncode == 0, done.stderr
    assert f"files of the container's root stay root's in {theirs.state}" in done.stderr
    assert "chown" in done.stderr
    assert docker_engine.containers() == []


def test_another_user_is_refused(theirs):
    theirs.write("env.toml", theirs.env_file.read_text() + 'user = "1:1"\n')
    done = run(theirs, "pass")
    assert done.returncode == 2
    assert "user: 1:1 is not you" in done.stderr
    assert "env.toml:4" in done.stderr


def test_the_socket_may_be_closed_to_them(theirs, docker_engine):
    (docker_engine.folder / "docker.sock").chmod(0o660)
    done = run(theirs, "pass")
    assert done.returncode == 2
    assert "no permission to use the Docker engine" in done.stderr
    assert not (theirs.state / "jobs").exists()


def test_a_container_that_was_left_alone_is_handed_over_by_cancel(theirs, docker_engine):
    theirs.write("env.toml", theirs.env_file.read_text() + 'user = "root"\n')
    file = theirs.write("main.py", WRITES + "\nimport time; print('up', flush=True); time.sleep(600)")
    os.chown(file, USER, USER)
    words = [*_AS_USER, sys.executable, "-m", "nemotron"]
    call = {"cwd": theirs.folder, "env": theirs.environment(), "capture_output": True, "text": True, "timeout": 300}
    subprocess.run([*words, "run", "./main.py", "--batch", "box"], check=True, **call)
    (folder,) = (theirs.state / "jobs").glob("main-*")
    until(lambda: any(b"up" in log.read_bytes() for log in folder.glob("logs/job.log")))
    kill(json.loads((folder / "record.json").read_text())["launcher"]["pid"])
    done = subprocess.run([*words, "jobs", "cancel", folder.name], check=False, **call)
    assert done.returncode == 0, done.stderr
    assert set(owners(theirs).values()) == {USER}
    assert docker_engine.containers() == []
