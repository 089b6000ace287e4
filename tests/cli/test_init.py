"""`nemotron init` without any platform: what it writes, what it leaves alone, what it asks."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress

import pytest

NO_TOOLS = {"PATH": "/nonexistent"}
"""No sbatch on this machine."""


@pytest.fixture
def fresh(project):
    """A project without an env.toml."""
    project.env_file.unlink()
    return project


def test_a_first_profile_and_a_recipe_that_runs(fresh, nemotron, nemotron_process):
    out = nemotron("init", "--executor", "local", "-y", "--recipe", "demo/train").succeeds().out
    assert fresh.env_file.read_text().startswith("#:schema ./env.schema.json\n")
    assert '\n[local]\nexecutor = "local"\n' in fresh.env_file.read_text()
    assert (fresh.folder / "env.schema.json").read_text().startswith("{")
    assert "  nemotron doctor local\n  nemotron demo train -c tiny --run local\n" in out
    assert ", all right\n" in nemotron("env", "check").succeeds().out
    ended = nemotron_process("demo", "train", "-c", "tiny", "--run", "local").succeeds()
    assert "y = 2.5" in ended.out
    last = nemotron("jobs", "show", "last", "--json").succeeds().json
    assert last["progress"]["metrics"]["step"] == 20 if "progress" in last else "succeeded"


def test_without_an_answer_nothing_is_written(fresh, nemotron):
    nemotron("init").refuses("there is no terminal to ask in", "--executor: Where do jobs run: local, ")
    words = ["--base-url", "--client-id", "--client-secret-variable", "--project-name", "--pvc", "--container-image"]
    nemotron("init", "--executor", "dgxcloud").refuses(*words, "-y takes DGX_CLIENT_SECRET", "-y leaves it out")
    nemotron("init", "--executor", "dgxcloud", "-y").refuses("--base-url", "--project-name")
    assert sorted(path.name for path in fresh.folder.iterdir()) == ["pyproject.toml"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--executor", "slrum", "-y"], ["--executor slrum: did you mean 'slurm'?"]),
        (["--executor", "local", "--host", "h", "-y"], ["--host is no option of executor 'local'"]),
        (["--executor", "slurm", "--hots", "h"], ["--hots"]),
        (["--executor", "local", "-y", "--profile", "wandb"], ["name of a system section"]),
        (["--executor", "local", "-y", "--profile", "a b"], ["is no name of a profile"]),
        (["--executor", "local", "-y", "--recipe", "list"], ["cannot be the name of a recipe"]),
        (["--executor", "local", "-y", "--recipe", "nano3/pretrain"], ["there is a recipe 'nano3/pretrain' already"]),
        (["--executor", "local", "-y", "--recipe", "../x"], ["cannot be the name of a recipe"]),
        (["--executor", "slurm", "--host", "h", "--port", "x", "-y"], ["port is a whole number"]),
    ],
)
def test_refused(fresh, nemotron, words, told):
    nemotron("init", *words).refuses(*told)
    assert sorted(path.name for path in fresh.folder.iterdir()) == ["pyproject.toml"]


def test_another_profile_joins_a_file_that_stays_as_it_is(project, nemotron):
    before = "# mine\n" + project.env_file.read_text() + "\n# the end\n"
    project.write("env.toml", before)
    nemotron("init", "--executor", "local", "-y", "--profile", "more").succeeds()
    assert project.env_file.read_text() == before + '\n[more]\nexecutor = "local"\n'
    assert not (project.folder / "env.schema.json").exists(), "the file does not name it"


def test_a_profile_there_is_stays_unless_it_is_to_be_replaced(project, nemotron):
    text = '# top\n[a]\nexecutor = "slurm"   # mine\n\n[a.env_vars]\nX = "1"\n\n# of b\n[b]\nextends = "a"\n'
    project.write("env.toml", text)
    nemotron("init", "--executor", "local", "-y", "--profile", "a").refuses("env.toml has a profile 'a' already")
    assert project.env_file.read_text() == text
    nemotron("init", "--executor", "local", "-y", "--profile", "a", "--force").succeeds()
    assert project.env_file.read_text() == '# top\n[a]\nexecutor = "local"\n\n# of b\n[b]\nextends = "a"\n'


def test_what_cannot_be_replaced_by_itself_is_not(project, nemotron):
    text = 'a.executor = "slurm"\n'
    project.write("env.toml", text)
    nemotron("init", "--executor", "local", "-y", "--profile", "a", "--force").refuses("edit it by hand")
    assert project.env_file.read_text() == text


def test_it_goes_into_the_file_in_force(project, nemotron, monkeypatch):
    (project.folder / "below").mkdir()
    monkeypatch.chdir(project.folder / "below")
    nemotron("init", "--executor", "local", "-y", "--profile", "more").succeeds()
    assert "[more]" in project.env_file.read_text()
    project.env_file.unlink()
    nemotron("init", "--executor", "local", "-y").succeeds()
    assert project.env_file.exists(), "beside the pyproject.toml"
    monkeypatch.setenv("NEMOTRON_ENV_FILE", str(project.home / "own" / "env.toml"))
    nemotron("init", "--executor", "local", "-y").succeeds()
    assert "[local]" in (project.home / "own" / "env.toml").read_text()


def test_what_is_written_is_obeyed_whatever_the_umask(fresh, nemotron_process, monkeypatch):
    before = os.umask(0)
    try:
        nemotron_process("init", "--executor", "local", "-y").succeeds()
        nemotron_process("init", "--global", "--executor", "local", "-y", "--profile", "mine").succeeds()
    finally:
        os.umask(before)
    assert fresh.env_file.stat().st_mode & 0o777 == 0o600
    assert "mine" in nemotron_process("env", "list").succeeds().out


def test_a_recipe_alone(project, nemotron):
    before = project.env_file.read_text()
    out = nemotron("init", "--recipe", "demo/train").succeeds().out
    assert project.env_file.read_text() == before
    assert "nemotron demo train -c tiny\n" in out
    assert '\n# # image = "python' in (project.folder / "recipes/demo/train/train.py").read_text()
    assert "demo/train, config tiny" in nemotron("demo", "train", "-c", "tiny", "--dry-run").succeeds().out
    nemotron("init", "--recipe", "demo/train").refuses("there is recipes/demo/train already")


def test_its_image_where_profiles_bring_none(project, nemotron):
    project.write("env.toml", '[box]\nexecutor = "docker"\n')
    nemotron("init", "--recipe", "demo/train").succeeds()
    shown = nemotron("demo", "train", "-c", "tiny", "--run", "box", "--dry-run").succeeds().out
    assert "wrong or missing" not in shown
    assert "python:3.12-slim" in shown


@pytest.fixture
def answered(fresh):
    """`answered("docker", "")`: exit code and screen of `nemotron init` on a terminal of 80 columns."""

    def run(*lines, **environment):
        keyboard, inside = pty.openpty()
        child = subprocess.Popen(
            [sys.executable, "-m", "nemotron", "init"],
            cwd=fresh.folder,
            env=fresh.environment(TERM="xterm", NO_COLOR="1", COLUMNS="80", **{**NO_TOOLS, **environment}),
            stdin=inside,
            stdout=inside,
            stderr=inside,
        )
        os.close(inside)
        os.write(keyboard, "".join(f"{line}\n" for line in lines).encode())
        seen = b""
        with suppress(OSError):  # EIO: nobody has the terminal open any more
            while block := os.read(keyboard, 1 << 16):
                seen += block
        os.close(keyboard)
        return child.wait(timeout=60), seen.decode().replace("\r\n", "\n")

    return run


@pytest.mark.slow
def test_questions_at_a_terminal(fresh, answered):
    code, screen = answered("nowhere", "2", "ubuntu:24.04", "", DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert code == 0, screen
    assert "'nowhere' is none of local, docker, slurm, dgxcloud, lepton" in screen, "it is asked again"
    assert "Docker was not asked: no Docker engine answers at /nonexistent/docker.sock" in screen
    assert fresh.env_file.read_text().endswith('[docker]\nexecutor = "docker"\ncontainer_image = "ubuntu:24.04"\n')
    lines = re.split(r"\n|\[.*?\]: |\): ", screen)  # what is typed ahead ends no line
    assert [line for line in lines if len(line) > 80] == []
    code, screen = answered("local", "docker", "local")
    assert code == 0, screen
    assert "there is a 'docker' already" in screen, "it is asked again"
    code, screen = answered("\x04")
    assert code == 130
    assert "interrupted; nothing more was done" in screen


@pytest.mark.slow
def test_hosts_of_ssh_are_offered(fresh, answered):
    (fresh.home / ".ssh").mkdir()
    (fresh.home / ".ssh" / "config").write_text("Host hpc other-hpc *.x\n  User me\nHost=last\n")
    code, screen = answered("slurm", "1", "acme", "batch", "", "")
    assert code == 0, screen
    for number, name in enumerate(("hpc", "other-hpc", "last"), 1):
        assert f"  {number}  {name}" in screen
    assert '[hpc]\nexecutor = "slurm"\ntunnel = "ssh"\nhost = "hpc"\naccount = "acme"\n' in fresh.env_file.read_text()
