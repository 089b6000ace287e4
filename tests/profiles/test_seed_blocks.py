"""Every complete TOML block of the specification, pasted as it stands, dry-runs for each of its profiles.

The files of `data/seed_env_blocks/` are those blocks, not changed by a character. A block that extends a profile of
another block is not complete by itself; the one there is stands below its parent, as the text has them.
"""

from __future__ import annotations

import sys

import pytest
from support import SEED_BLOCKS, make_repository

from nemo_runspec.profiles.envfile import load_env_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SYSTEM = {"wandb", "artifacts", "cache", "cli"}
CASES = [
    (block, profile)
    for block in SEED_BLOCKS
    for profile in tomllib.loads(block.read_text(encoding="utf-8"))
    if profile not in SYSTEM
]


@pytest.fixture
def paste(project):
    """Puts a block into the project's env file. The project is a git repository, as the packagers expect."""
    make_repository(project.folder)

    def put(block):
        project.write("env.toml", block.read_text(encoding="utf-8"))

    return put


def test_the_blocks_are_there():
    assert len(SEED_BLOCKS) == 18
    assert len(CASES) == 28


@pytest.mark.slow
@pytest.mark.parametrize(("block", "profile"), CASES, ids=[f"{b.stem}-{p}" for b, p in CASES])
def test_a_block_dry_runs(paste, nemotron, block, profile):
    paste(block)
    for option in ("--run", "--batch"):
        outcome = nemotron("nano3", "pretrain", "-c", "tiny", option, profile, "--dry-run").succeeds()
        assert f"on profile {profile} (" in outcome.out
        assert "Dry run: nothing was written" in outcome.out
    planned = nemotron("nano3", "pretrain", "-c", "tiny", "--run", profile, "--dry-run", "--json").succeeds().json
    assert planned["plan"]["profile"] == profile


@pytest.mark.parametrize("block", SEED_BLOCKS, ids=[block.stem for block in SEED_BLOCKS])
def test_a_block_without_a_profile_named(paste, nemotron, block):
    """Its system sections count for a local run too."""
    paste(block)
    nemotron("nano3", "pretrain", "-c", "tiny", "--dry-run").succeeds()


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [["nano3", "pretrain"], ["nano3", "data", "prep", "pretrain"]], ids="-".join)
@pytest.mark.parametrize("profile", ["pretrain-large", "data-prep", "dgxcloud", "lepton", "local"])
def test_the_full_example_as_a_process(paste, nemotron_process, recipe, profile):
    paste(next(block for block in SEED_BLOCKS if block.stem == "16_full_example"))
    nemotron_process(*recipe, "-c", "tiny", "--run", profile, "--dry-run").succeeds()


@pytest.mark.parametrize("profile", load_env_file(SEED_BLOCKS[0].parents[3] / "env.toml.example").profiles)
def test_the_example_file(project, nemotron, profile):
    make_repository(project.folder)
    project.write("env.toml", (SEED_BLOCKS[0].parents[3] / "env.toml.example").read_text(encoding="utf-8"))
    for option in ("--run", "--batch"):
        nemotron("nano3", "pretrain", "-c", "tiny", option, profile, "--dry-run").succeeds()
