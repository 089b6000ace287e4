"""The family omni3: its builds hold together, and their scripts do with podman and enroot what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from labs.slurm.standins import STANDINS
from support import REPOSITORY, git

from nemo_runspec.catalog import find_recipe
from nemo_runspec.packaging.bundle import make_bundle

FAMILY = REPOSITORY / "recipes" / "omni3"
STAGES = ("sft", "rl")


def config_of(stage: str) -> dict:
    return yaml.safe_load((FAMILY / "build" / stage / "config" / "default.yaml").read_text())


@pytest.mark.parametrize("stage", STAGES)
def test_a_build_is_a_recipe_with_all_it_needs(stage):
    recipe = find_recipe(f"omni3/build/{stage}")
    assert (recipe.spec.kind, recipe.spec.launch, recipe.script.name) == ("build", "direct", "build.sh")
    assert recipe.spec.cmd == "bash {script}", "what a shell script without a command of its own is started with"
    paths = {file.path for file in make_bundle(recipe).files}
    top = f"recipes/omni3/build/{stage}"
    assert {f"{top}/build.sh", f"{top}/Dockerfile", "recipes/omni3/_shared/build_image.sh"} <= paths


@pytest.mark.parametrize("stage", STAGES)
def test_the_config_names_the_dockerfiles_arguments(stage):
    dockerfile = (FAMILY / "build" / stage / "Dockerfile").read_text()
    declared = dict(re.findall(r"^ARG (\w+)=(.*)$", dockerfile, re.MULTILINE))
    given = config_of(stage)["build_args"]
    assert set(given) == set(declared)
    assert all(str(value) == declared[name].strip('"') for name, value in given.items() if value is not None)
    assert ":latest" not in dockerfile


def test_no_file_of_it_is_ignored():
    files = [str(file) for file in FAMILY.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    done = subprocess.run(["git", "check-ignore", *files], cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, ""), "git would leave these out"
    assert git(REPOSITORY, "--version")


@pytest.fixture
def build(tmp_path: Path):
    """`build("sft", …)`: the recipe's script with stand-ins for podman and enroot, its cache in a folder."""
    cache, scratch = tmp_path / "cache", tmp_path / "scratch"
    cache.mkdir()
    scratch.mkdir()
    environment = {
        **os.environ,
        "PATH": f"{STANDINS}:{os.environ['PATH']}",
        "STANDIN_CALLS": str(tmp_path / "calls.jsonl"),
        "NEMOTRON_BUILD_MOUNT": str(cache),
        "NEMOTRON_BUILD_LOGINS": str(tmp_path / "auth.json"),
        "NEMOTRON_BUILD_SCRATCH": str(scratch),
    }

    def run(stage: str, *words: str, **extra: str) -> subprocess.CompletedProcess[str]:
        script = FAMILY / "build" / stage / "build.sh"
        return subprocess.run(
            ["bash", str(script), "--image", "it", "--cache", "/lustre/c", *words],
            env={**environment, **extra}, capture_output=True, text=True, cwd=tmp_path, timeout=120,
        )  # fmt: skip

    return run


@pytest.mark.skipif(os.getuid() != 0, reason="a build is root in its container")
@pytest.mark.parametrize("stage", STAGES)
def test_the_script(build, tmp_path, stage):
    done = build(stage, "--build-arg", "BASE=docker.io/library/it:1", "--build-arg", "NAME=a b $c")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == 'use it: container_image = "/lustre/c/containers/it.sqsh"'
    calls = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    words = calls[0]["argv"]
    assert [words[i + 1] for i, word in enumerate(words) if word == "--build-arg"][-1] == "NAME=a b $c"
    assert [call["argv"][0] for call in calls] == ["build", "import", "create", "inspect", "rm"]
    assert list((tmp_path / "scratch").iterdir()) == [], "layers are not left on the node"
    assert [file.name for file in (tmp_path / "cache" / "containers").iterdir()] == ["it.sqsh"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--save", "zip"], "--save is sqsh, oci or both, not zip"),
        (["--pull", "x"], "unknown option --pull"),
        (["--build-arg"], "--build-arg needs a value"),
    ],
)
def test_what_the_script_refuses(build, tmp_path, words, said):
    done = build("sft", *words)
    assert done.returncode == 1
    assert f"error: {said}\n" == done.stderr
    assert not (tmp_path / "calls.jsonl").exists()
