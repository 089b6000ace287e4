"""The family omni3: its builds hold together, and their scripts do with podman and enroot what they say."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from labs.podman import Podman, needs_podman
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


def test_a_preview_shows_what_the_script_calls(build, tmp_path, project, nemotron):
    """The same commands with the same words, but for where the image is written until it is whole."""
    project.env_file.write_text('[c]\nexecutor = "slurm"\naccount = "acme"\nbuild_cache_dir = "/lustre/c"\n')
    words = ("image=it", "save=both", "build_args.BASE=docker.io/library/it:1")
    shown = nemotron("omni3", "build", "sft", "--run", "c", *words, "--dry-run").succeeds().out
    lines = shown.partition("\nbuild\n")[2].partition("\n\n")[0].splitlines()
    assert lines[-2:] == [
        "  image: /lustre/c/containers/it.sqsh",
        "  image: /lustre/c/containers/it.oci.tar",
    ]
    done = build("sft", "--save", "both", "--build-arg", "BASE=docker.io/library/it:1")
    assert done.returncode == 0, done.stderr
    calls = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    called = [
        shlex.join([call["tool"], *call["argv"]]) for call in calls if call["argv"][0] in ("build", "import", "save")
    ]
    folder = FAMILY / "build" / "sft"
    plain = [
        re.sub(rf"{tmp_path}/cache/containers/\.(\S+)\.\d+\.part", r"/lustre/c/containers/\1", line).replace(
            f"{folder}/Dockerfile {folder}", "Dockerfile ."
        )
        for line in called
    ]
    assert [line.strip() for line in lines[:-2]] == plain


@pytest.mark.parametrize("value", ["main", "v1.2", "0123abcd"])
def test_a_ref_is_a_commit(project, nemotron, value):
    project.env_file.write_text('[c]\nexecutor = "slurm"\naccount = "acme"\n')
    done = nemotron("omni3", "build", "sft", "--run", "c", f"build_args.MEGATRON_BRIDGE_REF={value}", "--dry-run")
    done.refuses("build_args.MEGATRON_BRIDGE_REF must be a whole commit", "git ls-remote")


# Podman, for real: the Dockerfiles run on a base whose programs write down how they are called


@pytest.fixture
def really(build, tmp_path):
    """`really("sft", …)`: the recipe's script with Debian's podman and a stand-in for enroot."""
    podman = Podman(tmp_path / "podman")
    base = podman.base(tmp_path / "base.tar")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "enroot").symlink_to(STANDINS / "enroot")
    path = f"{tools}:{os.environ['PATH']}"

    def run(stage: str, *words: str):
        given = ("--save", "both", "--build-arg", f"BASE=docker-archive:{base}")
        return build(stage, *given, *words, PATH=path, STORAGE_DRIVER="vfs"), podman

    return run


@needs_podman
def test_podman_builds_the_image_of_sft(really, tmp_path):
    commit = "0123456789abcdef0123456789abcdef01234567"
    done, podman = really("sft", "--build-arg", f"MEGATRON_BRIDGE_REF={commit}", "--build-arg", "AV=1.2.3")
    assert done.returncode == 0, done.stdout + done.stderr
    images = tmp_path / "cache" / "containers"
    assert sorted(file.name for file in images.iterdir()) == ["it.oci.tar", "it.sqsh"]
    name, calls = podman.calls_in(images / "it.oci.tar")
    assert name == "localhost/nemotron/it:latest"
    assert any("librosa==0.11.0 soundfile==0.14.0 av==1.2.3" in call for call in calls)
    assert f"git fetch --quiet --depth 1 origin {commit}" in calls
    assert calls[-1] == "python -c import av, librosa, soundfile"
    assert list((tmp_path / "scratch").iterdir()) == []


@needs_podman
def test_podman_builds_the_image_of_rl(really, tmp_path):
    done, podman = really("rl", "--build-arg", "EXTRAS=vllm")
    assert done.returncode == 0, done.stdout + done.stderr
    _, calls = podman.calls_in(tmp_path / "cache" / "containers" / "it.oci.tar")
    assert "uv sync --locked --no-cache --extra vllm" in calls


@needs_podman
def test_podman_builds_nothing_of_a_branch(really, tmp_path):
    done, _ = really("sft", "--build-arg", "MEGATRON_BRIDGE_REF=main")
    assert done.returncode != 0
    assert "MEGATRON_BRIDGE_REF must be a whole commit, not main" in done.stdout + done.stderr
    assert list((tmp_path / "cache" / "containers").iterdir()) == []
