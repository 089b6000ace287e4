"""Sections, chains of `extends`, and what is said of a chain that cannot be followed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.errors import UserError
from nemo_runspec.profiles.envfile import EnvFile, load_env_file


def read(folder: Path, text: str) -> EnvFile:
    path = folder / "env.toml"
    path.write_text(text, encoding="utf-8")
    return load_env_file(path)


def test_system_sections_are_no_profiles(tmp_path):
    env = read(tmp_path, "[wandb]\n[artifacts]\n[cache]\n[cli]\n[a]\n[b]\n")
    assert env.profiles == ["a", "b"]
    for name in ("wandb", "artifacts", "cache", "cli"):
        with pytest.raises(UserError, match=f"'{name}' is a system section"):
            env.chain(name)


@pytest.mark.parametrize("name", ["wandb", "artifacts", "cache", "cli"])
def test_system_sections_are_no_parents(tmp_path, name):
    env = read(tmp_path, f'[{name}]\n[a]\nextends = "{name}"\n')
    with pytest.raises(UserError, match=f"'a' extends the system section '{name}'") as caught:
        env.chain("a")
    assert caught.value.where.endswith("env.toml:3 [a]")


def test_an_unknown_profile_is_offered_the_nearest(tmp_path):
    env = read(tmp_path, "[my-cluster]\n[local]\n")
    with pytest.raises(UserError, match="no profile 'my_clutser'") as caught:
        env.chain("my_clutser")
    assert "did you mean 'my-cluster'?" in caught.value.remedy
    assert "local" in caught.value.remedy


def test_an_unknown_parent_names_both(tmp_path):
    env = read(tmp_path, '[a]\nnodes = 1\nextends = "bsae"\n[base]\n')
    with pytest.raises(UserError, match="profile 'a' extends 'bsae'") as caught:
        env.chain("a")
    assert caught.value.where.endswith("env.toml:3 [a]")
    assert caught.value.remedy == "did you mean 'base'?"


@pytest.mark.parametrize("value", ['["a", "b"]', "1", "{}", "true"])
def test_there_is_one_parent(tmp_path, value):
    env = read(tmp_path, f"[a]\nextends = {value}\n[b]\n")
    with pytest.raises(UserError, match="extends must name one profile"):
        env.chain("a")


@given(length=st.integers(1, 6), lead=st.integers(0, 4))
def test_a_cycle_prints_its_whole_chain(tmp_path_factory, length, lead):
    names = [f"p{i}" for i in range(lead + length)]
    parents = {**dict(pairwise(names)), names[-1]: names[lead]}
    text = "".join(f'[{name}]\nextends = "{parents[name]}"\n' for name in names)
    env = read(tmp_path_factory.mktemp("cycle"), text)
    with pytest.raises(UserError) as caught:
        env.chain("p0")
    assert " -> ".join([*names[lead:], names[lead]]) in caught.value.what
    assert caught.value.where.endswith(f"[{names[lead]}]")


@pytest.mark.parametrize("depth", [1, 2, 50, 2000])
def test_any_depth(tmp_path, depth):
    text = "[p0]\nnodes = 7\n" + "".join(f'[p{i}]\nextends = "p{i - 1}"\n' for i in range(1, depth + 1))
    env = read(tmp_path, text)
    assert env.chain(f"p{depth}") == tuple(f"p{i}" for i in range(depth, -1, -1))


def test_the_parent_may_stand_below(tmp_path):
    assert read(tmp_path, '[a]\nextends = "b"\n[b]\n').chain("a") == ("a", "b")


def test_places(tmp_path):
    env = read(tmp_path, "[a]\nmounts = [\n  '/x:/x',\n]\ncustom_spec = { one = 1 }\n[a.env_vars]\nX = 1\n")
    assert env.where("a", "mounts").endswith("env.toml:2 [a]")
    assert env.where("a", "custom_spec", "one").endswith("env.toml:5 [a]")
    assert env.where("a", "env_vars", "X").endswith("env.toml:7 [a]")
    assert env.where("a").endswith("env.toml:1 [a]")


def test_keys_outside_a_section_are_strays(tmp_path):
    env = read(tmp_path, 'executor = "slurm"\n[a]\n')
    assert env.strays == ("executor",)
    assert env.profiles == ["a"]
