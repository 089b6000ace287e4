"""Every TOML block of docs/profiles.md is a profile that a plan can be made with, and packages what it says."""

from __future__ import annotations

import re

import pytest
from support import REPOSITORY, make_repository

import nemo_runspec
from nemo_runspec.packaging.pack import pack
from nemo_runspec.packaging.unpack import unpack
from nemo_runspec.profiles.envfile import load_env_file

TEXT = (REPOSITORY / "docs/profiles.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
HYBRID = [block for block in BLOCKS if '"hybrid"' in block]


@pytest.fixture
def example(project):
    for name in ("src/train.py", "src/app/b.py", "configs/a.yaml", "configs/README", "local/mine.yaml"):
        project.write(name, "x: 1\n")
    project.recipe("mine/train")
    make_repository(project.folder)
    return project


def test_there_are_blocks():
    assert len(BLOCKS) >= 4
    assert len(HYBRID) == 1


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_plan_can_be_made(example, nemotron, monkeypatch, block):
    monkeypatch.setenv("NGC_API_KEY", "nothing secret")
    file = example.write("env.toml", block)
    if not load_env_file(file).profiles:  # sections that every profile has are tried with one
        example.write("env.toml", f'{block}\n[here]\nexecutor = "local"\n')
    profiles = load_env_file(file).profiles
    assert profiles
    for profile in profiles:
        nemotron("mine", "train", "--run", profile, "--dry-run").succeeds()
        plan = nemo_runspec.plan("mine/train", profile=profile)
        assert (plan.package.problems, plan.unfilled) == ((), ())


def test_the_hybrid_example_packages_what_it_says(example, tmp_path, monkeypatch):
    example.write("env.toml", HYBRID[0])
    monkeypatch.chdir(example.folder / "src")
    archive = pack(nemo_runspec.plan("mine/train", profile="far").package, print).archive
    unpack(archive, tmp_path / "code")
    files = sorted(str(path.relative_to(tmp_path / "code")) for path in (tmp_path / "code").rglob("*.*"))
    assert files == ["code/app/b.py", "code/train.py", "configs/a.yaml", "configs/mine.yaml"]
