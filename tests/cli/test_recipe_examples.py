"""The examples in a recipe's help can be typed as they stand, whatever profile they name."""

from __future__ import annotations

import re
import shlex

import pytest
from support import HEADER

from nemo_runspec.catalog import Recipe, find_recipes
from nemo_runspec.pipelines.file import read_pipeline

PROFILES = {
    "local": "",
    "docker": 'container_image = "image"\ngpus_per_node = 1\n',
    "slurm": 'account = "a"\npartition = "p"\ntime = "4:00:00"\ncontainer_image = "image"\n',
    "dgxcloud": 'base_url = "https://x"\nkube_apiserver_url = "https://y"\nclient_id = "me"\n'
    'project_name = "team"\ncontainer_image = "image"\npvc_nemo_run_dir = "/pvc/run"\n'
    'pvcs = [{ claimName = "data", path = "/pvc" }]\n',
    "lepton": 'container_image = "image"\nnemo_run_dir = "/data/run"\nresource_shape = "gpu.8xh100-sxm"\n'
    'node_group = "group"\nmounts = [{ path = "/", mount_path = "/data", from = "node-nfs:lustre" }]\n',
}


def examples(nemotron, monkeypatch, *recipe: str) -> list[list[str]]:
    """The words of every example, without the program's name."""
    monkeypatch.setenv("COLUMNS", "200")
    text = nemotron(*recipe, "--help").succeeds().out
    panel = re.sub("[╭╮╰╯│─]", "", text[text.index(" Examples ") :])
    lines = [shlex.split(row) for row in panel.splitlines()[1:] if row.strip()]
    assert all(words[: len(recipe) + 1] == ["nemotron", *recipe] for words in lines), lines
    return [words[1:] for words in lines]


def try_all(nemotron, lines: list[list[str]]) -> None:
    for words in lines:
        outcome = nemotron(*words, *(() if "--dry-run" in words else ("--dry-run",)))
        assert outcome.code == 0, (words, outcome.err)
        assert "not used" not in outcome.out, (words, outcome.out)


def _fits_one_node(recipe: Recipe) -> bool:
    """Whether its default configuration is for one node; of a pipe, that of each of its steps."""
    parts = read_pipeline(str(recipe.config_dir / "default.yaml")).stages if recipe.spec.kind == "pipe" else ()
    families = {each.path: each for each in find_recipes()}
    steps = (families[part.step] for part in parts if part.step in families)
    return all((each.spec.nodes or 1) == 1 for each in (recipe, *steps))


@pytest.mark.parametrize("executor", PROFILES)
def test_they_run(project, nemotron, monkeypatch, executor):
    """Every recipe's on Slurm, where most is to be said of a job; on the others those of every fourth, and of ours."""
    project.write("env.toml", f"[\"my 'own' one\"]\nexecutor = '{executor}'\n{PROFILES[executor]}")
    project.recipe("mine/direct")
    project.recipe("mine/spread", header=HEADER.replace('"direct"', '"torchrun"'), aaa="x: 1\n", default="x: 1\n")
    others = [each for each in PROFILES if each != "slurm"]
    for number, recipe in enumerate(find_recipes()):
        if executor not in ("slurm", others[number % len(others)]) and not recipe.path.startswith("mine/"):
            continue
        if recipe.is_step:
            continue  # whose required inputs must be named first
        if recipe.spec.kind == "build" and executor != "slurm":
            continue  # it does not run there: tests/slurm/test_build.py
        if "tiny" not in recipe.configs() and executor in ("local", "docker") and not _fits_one_node(recipe):
            continue
        lines = examples(nemotron, monkeypatch, *recipe.path.split("/"))
        assert [words[words.index("--batch") + 1] for words in lines if "--batch" in words] == ["my 'own' one"]
        try_all(nemotron, lines)


def test_without_a_profile(project, nemotron, monkeypatch):
    project.env_file.unlink()
    project.recipe("mine/train")
    lines = examples(nemotron, monkeypatch, "mine", "train")
    assert lines
    try_all(nemotron, lines)
