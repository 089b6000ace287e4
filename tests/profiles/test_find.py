"""Which env file is in force."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_runspec.errors import UserError
from nemo_runspec.profiles.find import find_env_file


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_the_nearest_file_upwards(tmp_path):
    wanted = touch(tmp_path / "env.toml")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_env_file(deep) == wanted
    nearer = touch(tmp_path / "a" / "env.toml")
    assert find_env_file(deep) == nearer


def test_the_search_ends_after_the_first_project(tmp_path):
    touch(tmp_path / "env.toml")
    touch(tmp_path / "project" / "pyproject.toml")
    deep = tmp_path / "project" / "src"
    deep.mkdir()
    assert find_env_file(deep) is None
    own = touch(tmp_path / "project" / "env.toml")
    assert find_env_file(deep) == own


def test_a_folder_of_that_name_is_no_file(tmp_path):
    touch(tmp_path / "pyproject.toml")
    (tmp_path / "env.toml").mkdir()
    assert find_env_file(tmp_path) is None


def test_the_variable_wins(tmp_path, monkeypatch):
    touch(tmp_path / "env.toml")
    named = touch(tmp_path / "elsewhere" / "env.slurm.toml")
    monkeypatch.setenv("NEMOTRON_ENV_FILE", str(named))
    assert find_env_file(tmp_path) == named


def test_the_home_in_the_variable_is_expanded(tmp_path, monkeypatch):
    named = touch(tmp_path / "env.mine.toml")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NEMOTRON_ENV_FILE", "~/env.mine.toml")
    assert find_env_file(Path("/")) == named


def test_a_relative_value_is_looked_for_upwards_to_the_project(tmp_path, monkeypatch):
    touch(tmp_path / "project" / "pyproject.toml")
    named = touch(tmp_path / "project" / "envs" / "env.slurm.toml")
    deep = tmp_path / "project" / "src" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.setenv("NEMOTRON_ENV_FILE", "envs/env.slurm.toml")
    assert find_env_file(deep) == named
    touch(tmp_path / "outside.toml")
    monkeypatch.setenv("NEMOTRON_ENV_FILE", "outside.toml")
    with pytest.raises(UserError, match=r"does not exist: outside\.toml"):
        find_env_file(deep)


@pytest.mark.parametrize("value", ["", "   "])
def test_an_empty_variable_counts_as_unset(tmp_path, monkeypatch, value):
    wanted = touch(tmp_path / "env.toml")
    monkeypatch.setenv("NEMOTRON_ENV_FILE", value)
    assert find_env_file(tmp_path) == wanted


def test_a_missing_file_counts_only_for_commands_that_need_a_profile(nemotron, monkeypatch):
    monkeypatch.setenv("NEMOTRON_ENV_FILE", "/not/there.toml")
    for needing in (
        ["nano3", "pretrain", "-c", "tiny", "--run", "my-cluster", "--dry-run"],
        ["nano3", "pretrain", "-c", "tiny", "--batch", "my-cluster", "--dry-run"],
        ["env", "list"],
        ["env", "show", "my-cluster"],
        ["env", "check"],
    ):
        nemotron(*needing).refuses("NEMOTRON_ENV_FILE names a file that does not exist: /not/there.toml", "fix:")
    for other in (
        ["list"],
        ["--help"],
        ["nano3", "pretrain", "--help"],
        ["env", "schema"],
        ["nano3", "pretrain", "-c", "tiny", "--dry-run"],
    ):
        assert nemotron(*other).code == 0


def test_without_any_env_file(nemotron, project):
    project.env_file.unlink()
    nemotron("nano3", "pretrain", "--run", "x", "--dry-run").refuses("profile 'x' needs an env.toml", "fix:")
    nemotron("env", "list").refuses("there is no env.toml")
    assert nemotron("nano3", "pretrain", "-c", "tiny", "--dry-run").code == 0
