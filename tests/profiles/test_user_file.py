"""The user's own env file, below the project's."""

from __future__ import annotations

import re

import pytest

USERS = """\
[wandb]
project = "mine"
entity = "me"

[mine]
executor = "slurm"
account = "my-account"
partition = "gpu"

[my-cluster]
executor = "local"
"""


@pytest.fixture
def users(project):
    """`users(text)`: writes it; the file."""

    def write(text=USERS):
        path = project.home / ".config" / "nemotron" / "env.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.fixture(autouse=True)
def script(project):
    project.write("train.py", "print('ran')\n")


def shown(nemotron, *words):
    return nemotron("run", "./train.py", "--dry-run", "--full", *words).succeeds().out


def test_its_profiles_are_there_with_their_own_lines(users, nemotron):
    users()
    out = shown(nemotron, "--run", "mine")
    assert "~/.config/nemotron/env.toml:7 [mine]" in out
    listed = nemotron("env", "list").succeeds().out
    assert listed.index("env.toml\n") < listed.index("my-cluster") < listed.index("~/.config/nemotron/env.toml\n")
    assert listed.index("~/.config/nemotron/env.toml") < listed.index("mine")
    assert listed.count("my-cluster") == 1


def test_a_section_of_the_project_wins_whole(users, nemotron):
    users()
    out = shown(nemotron, "--run", "my-cluster")
    assert "profile my-cluster (slurm, run)" in out
    assert re.search(r"run.wandb.project +\S* *nemotron +\S* *env.toml:2 \[wandb\]|WANDB_PROJECT += nemotron", out)
    assert "= mine" not in out


def test_extends_reaches_across_both_ways(users, nemotron, project):
    users(USERS + '[of-project]\nextends = "base-slurm"\npartition = "p"\n')
    project.write("env.toml", project.env_file.read_text() + '\n[far]\nextends = "mine"\nnodes = 2\n')
    out = shown(nemotron, "--run", "far")
    assert "~/.config/nemotron/env.toml:7 [mine] via extends" in out
    assert "[far]" in out
    out = shown(nemotron, "--run", "of-project")
    assert "env.toml:10 [base-slurm] via extends" in out


def test_alone_it_is_enough_and_no_project(users, nemotron, project):
    """What is packaged is what the working directory says, not the folder of the user's settings."""
    users(USERS + "[pack]\npackager = 'pattern'\npackager_include_pattern = '*.py'\n")
    project.env_file.unlink()
    assert "profile mine of ~/.config/nemotron/env.toml (slurm, run)" in shown(nemotron, "--run", "mine")
    assert "run.wandb.project" in shown(nemotron)
    plan = nemotron("run", "./train.py", "--run", "pack", "--dry-run", "--json").succeeds().json["plan"]
    assert plan["package"]["root"] == str(project.folder)


def test_errors_name_its_lines(users, nemotron):
    users('[bad]\nexecutor = "slurm"\nacount = "x"\n')
    nemotron("run", "./train.py", "--run", "bad").refuses("unknown key 'acount'", "~/.config/nemotron/env.toml:3 [bad]")
    assert "~/.config/nemotron/env.toml:3 [bad]" in nemotron("env", "check").err
    nemotron("run", "./train.py", "--run", "nowhere").refuses("in env.toml and ~/.config/nemotron/env.toml")


def test_a_file_that_is_named_is_checked_alone(users, nemotron, project):
    users('[bad]\nexecutor = "slurm"\nacount = "x"\n[cli]\ncolour = 1\n[good]\n')
    project.write("other.toml", '[a]\nextends = "good"\n')
    assert nemotron("env", "check", "other.toml").succeeds().out == "other.toml: 1 profile, all right\n"
    assert "wrong: runai, bad" in nemotron("env", "check").out


def test_where_it_lies(users, nemotron, project, monkeypatch):
    path = users()
    elsewhere = project.home / "xdg" / "nemotron"
    elsewhere.mkdir(parents=True)
    path.rename(elsewhere / "env.toml")
    nemotron("env", "show", "mine").refuses("no profile 'mine'")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project.home / "xdg"))
    nemotron("env", "show", "mine").succeeds()
    monkeypatch.setenv("XDG_CONFIG_HOME", "xdg")
    nemotron("env", "show", "mine").refuses("no profile 'mine'")


def test_one_that_others_can_write_is_refused(users, nemotron):
    users().chmod(0o666)
    nemotron("env", "list").refuses("is not obeyed: everybody can write", "nemotron env trust")
    nemotron("run", "./train.py").refuses("is not obeyed")


def test_a_plan_that_was_saved_finds_it_again(users, nemotron_process, project):
    users('[here]\nexecutor = "local"\nsecrets = ["MY_TOKEN"]\n')
    project.write("train.py", "import os\nprint(len(os.environ['MY_TOKEN']))\n")
    nemotron_process(
        "run", "./train.py", "--run", "here", "--dry-run", "--out", "p.json", MY_TOKEN="0123456789"
    ).succeeds()
    assert "10" in nemotron_process("apply", "p.json", MY_TOKEN="0123456789").succeeds().out


def test_init_writes_it(nemotron, project):
    out = (
        nemotron("init", "--global", "--executor", "local", "-y", "--profile", "all", "--recipe", "demo/train")
        .succeeds()
        .out
    )
    assert "wrote ~/.config/nemotron/env.toml" in out
    assert (project.folder / "recipes/demo/train/train.py").exists()
    assert "all" in nemotron("env", "list").succeeds().out
