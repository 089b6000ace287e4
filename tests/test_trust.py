"""Whose env.toml and whose recipes are obeyed, and where they are looked for. Other users' files need root."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

import pytest

from nemo_runspec import trust
from nemo_runspec.catalog import find_recipe, recipe_roots
from nemo_runspec.errors import UserError
from nemo_runspec.profiles.find import find_env_file

ENV = '[cluster]\nexecutor = "local"\nstartup_commands = ["touch planted"]\n'
RECIPE = '# /// script\n# [tool.runspec]\n# schema = "1"\n# ///\nprint("planted")\n'

as_root = pytest.mark.lab("root", how="as root: REQUIRE_LAB=1 uv run --group dev pytest")


@pytest.fixture
def shared(tmp_path: Path, project, monkeypatch) -> Path:
    """A folder of everybody's with another user's env.toml and recipes, and a folder of one's own below."""
    folder = tmp_path / "shared"
    (folder / "recipes" / "demo").mkdir(parents=True)
    (folder / "env.toml").write_text(ENV)
    (folder / "recipes" / "demo" / "run.py").write_text(RECIPE)
    (folder / "mine").mkdir()
    monkeypatch.chdir(folder / "mine")
    return folder


def give(path: Path, user: str) -> None:
    os.chown(path, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)


def test_ones_own_files_are_obeyed(shared):
    assert find_env_file() == shared / "env.toml"
    assert shared / "recipes" in recipe_roots()


@as_root
def test_another_users_env_file_is_refused_with_the_command_that_trusts_it(shared, nemotron):
    give(shared / "env.toml", "daemon")
    (shared / "mine" / "x.py").write_text("print(1)\n")
    done = nemotron("run", "./x.py", "--run", "cluster")
    done.refuses("belongs to daemon", f"nemotron env trust {shared}/env.toml")
    nemotron("env", "trust", str(shared / "env.toml")).succeeds()
    assert find_env_file() == shared / "env.toml"
    give(shared / "env.toml", "bin")
    with pytest.raises(UserError, match="belongs to bin"):
        find_env_file()


@as_root
def test_another_users_recipes_are_refused(shared, nemotron):
    give(shared / "recipes", "daemon")
    for words in (["demo"], ["list"], ["nano3", "pretrain", "-c", "tiny", "--dry-run"]):
        nemotron(*words).refuses("the recipe folder", "belongs to daemon", "nemotron env trust")
    nemotron("env", "trust", str(shared / "recipes")).succeeds()
    assert find_recipe("demo").root == shared / "recipes"


@as_root
def test_a_script_that_another_user_put_into_ones_own_recipes_is_refused(shared, nemotron):
    give(shared / "recipes" / "demo" / "run.py", "daemon")
    nemotron("demo").refuses("belongs to daemon")


@as_root
@pytest.mark.parametrize("mode", [0o666, 0o646])
def test_what_everybody_can_write_is_refused(shared, mode):
    (shared / "env.toml").chmod(mode)
    with pytest.raises(UserError, match="everybody can write"):
        find_env_file()


def test_a_folder_that_everybody_can_write_is_refused_unless_nobody_can_replace_what_is_in_it(shared):
    shared.chmod(0o777)
    with pytest.raises(UserError, match="everybody can write"):
        find_env_file()
    shared.chmod(0o777 | stat.S_ISVTX)
    assert find_env_file() == shared / "env.toml"


@as_root
def test_what_a_group_can_write_is_refused_unless_nobody_else_is_in_it(shared):
    file = shared / "env.toml"
    file.chmod(0o664)
    assert find_env_file() == file, "a umask of 002 where each user has a group of his own"
    os.chown(file, 0, 100)
    with pytest.raises(UserError, match="the group users can write"):
        find_env_file()


@as_root
def test_a_number_that_is_nobodys_here_is_no_other_user(shared):
    """As in a container that has a folder of its host: else everybody were refused there."""
    os.chown(shared / "env.toml", 54321, 54321)
    (shared / "env.toml").chmod(0o664)
    assert find_env_file() == shared / "env.toml"


@as_root
def test_an_env_file_that_is_named_is_meant_and_whose_it_is_is_said(shared, nemotron, monkeypatch):
    give(shared / "env.toml", "daemon")
    monkeypatch.setenv("NEMOTRON_ENV_FILE", str(shared / "env.toml"))
    (shared / "mine" / "x.py").write_text("print(1)\n")
    done = nemotron("run", "./x.py", "--run", "cluster", "--dry-run").succeeds()
    assert "belongs to daemon" in done.out + done.err
    for words in (["list"], ["show", "cluster"], ["check"]):
        assert "belongs to daemon" in nemotron("env", *words).succeeds().err


@pytest.mark.parametrize("mark", [".git", "pyproject.toml"])
def test_the_search_ends_at_a_projects_root(shared, mark):
    (shared / "mine" / mark).mkdir()
    assert find_env_file() is None
    assert shared / "recipes" not in recipe_roots()


def test_the_search_ends_at_home(shared, monkeypatch):
    monkeypatch.setenv("HOME", str(shared / "mine"))
    assert find_env_file() is None


def test_the_search_ends_at_a_file_systems_root(shared, monkeypatch):
    devices = {shared / "mine": 1}
    monkeypatch.setattr(trust, "_device", lambda path: devices.get(path, 2))
    assert find_env_file() is None


def test_a_recipe_that_hides_a_built_in_one_is_marked_and_said(shared, nemotron):
    folder = shared / "recipes" / "nano3" / "pretrain"
    folder.mkdir(parents=True)
    (folder / "run.py").write_text(RECIPE)
    assert "hides the built-in" in nemotron("list").succeeds().out
    row = next(row for row in nemotron("list", "--json").succeeds().json if row["path"] == "nano3/pretrain")
    assert row["hides"].endswith("recipes/nano3/pretrain")
    assert "hides the built-in" in (done := nemotron("nano3", "pretrain", "--dry-run").succeeds()).out + done.err


@pytest.mark.parametrize("odd", ["a FIFO", "a device", "nested", "a list", "not UTF-8"])
def test_an_odd_list_of_what_is_trusted_trusts_nothing(shared, nemotron, project, odd):
    file = project.state / "trusted.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    makers = {
        "a FIFO": lambda: os.mkfifo(file),
        "a device": lambda: file.symlink_to("/dev/zero"),
        "nested": lambda: file.write_text("[" * 100_000),
        "a list": lambda: file.write_text("[1]"),
        "not UTF-8": lambda: file.write_bytes(b"\xff{"),
    }
    makers[odd]()
    (shared / "env.toml").chmod(0o666)
    nemotron("env", "list").refuses("everybody can write", "nemotron env trust")


@pytest.fixture
def everybodys(tmp_path, project) -> Path:
    """A folder such as /tmp, and a script of one's own beside it."""
    project.write("x.py", "print(1)\n")
    folder = tmp_path / "everybodys"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@as_root
@pytest.mark.parametrize("way", ["a link", "a link to a link", "a folder that is a link", "a pipe"])
def test_what_another_user_planted_in_everybodys_folder_is_not_written_through(everybodys, tmp_path, nemotron, way):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "plan.json").write_text("kept")
    planted = named = everybodys / "plan.json"
    if way == "a pipe":
        os.mkfifo(planted)
    elif way == "a folder that is a link":
        planted = everybodys / "folder"
        planted.symlink_to(mine)
        named = planted / "plan.json"
    else:
        planted.symlink_to(mine / "plan.json")
        if way == "a link to a link":
            named = tmp_path / "link.json"
            named.symlink_to(planted)
    os.chown(planted, pwd.getpwnam("daemon").pw_uid, 1, follow_symlinks=False)
    nemotron("run", "./x.py", "--dry-run", "--out", str(named)).refuses(f"{planted} is another user's")
    assert (mine / "plan.json").read_text() == "kept"
    if way != "a pipe":  # which would wait for a reader
        os.chown(planted, 0, 0, follow_symlinks=False)
        nemotron("run", "./x.py", "--dry-run", "--out", str(named)).succeeds()
        assert (mine / "plan.json").read_text() != "kept"
