"""Help: what stands in it, at any width."""

from __future__ import annotations

import re

import pytest
from support import HEADER

BOX = re.compile(r"[╭╮╰╯│─]")


def words_of(text: str) -> str:
    """The help without its boxes and its line breaks."""
    return " ".join(BOX.sub(" ", text).split())


def squeezed(text: str) -> str:
    """The help without any space: what a narrow terminal broke is whole again."""
    return re.sub(r"\s", "", BOX.sub("", text))


@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_help_of_a_recipe(project, nemotron_process, columns):
    out = nemotron_process("nano3", "pretrain", "--help", COLUMNS=columns).succeeds().out
    text, whole = words_of(out), squeezed(out)
    for option in (
        "--config",
        "--run",
        "--batch",
        "--dry-run",
        "--resolve",
        "--out",
        "--multirun",
        "--stage",
        "--force-squash",
        "--json",
    ):
        assert option in whole
    assert "default" in text
    assert "tiny" in text
    assert "run.data" in text
    assert "reads pretrain_blend" in text
    assert "writes model" in text
    assert "train.train_iters" in text
    assert "Profiles (env.toml)" in text
    for profile in ("my-cluster", "base-slurm", "laptop", "lepton"):
        assert profile in text
    assert "extends base-slurm" in text
    for field in ("partition", "gpus_per_node", "container_image"):
        assert field in whole
    assert "nemotron nano3 pretrain -c tiny --run" in text
    assert max(len(row) for row in out.splitlines()) <= int(columns)


def test_the_same_help_either_way(project, nemotron):
    assert nemotron("nano3", "pretrain", "-h").out == nemotron("nano3", "pretrain", "--help").succeeds().out


def test_the_env_file_really_in_force_is_named(project, nemotron, monkeypatch):
    project.write("envs/other.toml", "[somewhere]\n")
    monkeypatch.setenv("NEMOTRON_ENV_FILE", "envs/other.toml")
    text = words_of(nemotron("nano3", "pretrain", "--help").succeeds().out)
    assert "Profiles (envs/other.toml)" in text
    assert "somewhere" in text
    assert "my-cluster" not in text.replace("--run my-cluster", "")


@pytest.mark.parametrize(
    "content", ["", "x = [", "[a]\nextends = 'a'\n", "[a]\nexecutor = 'slrum'\n", "[a]\nnodes = 'x'\n", b"\xff"]
)
def test_help_survives_any_env_file(project, nemotron, content):
    project.env_file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert "--dry-run" in nemotron("nano3", "pretrain", "--help").succeeds().out


def test_markup_in_names_is_text(project, nemotron):
    project.write("env.toml", '["[bold]x[/]"]\nexecutor = "local"\n')
    project.recipe("mine/train", header=HEADER.replace("A recipe for tests.", "Loads [red]data[/red] [x]."))
    out = words_of(nemotron("mine", "train", "--help").succeeds().out)
    assert "[bold]x[/]" in out
    assert "[red]data[/red] [x]" in out
    assert "[red]data[/red] [x]" in words_of(nemotron("mine", "--help").succeeds().out)


@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_first_help(project, nemotron_process, columns):
    out = nemotron_process("--help", COLUMNS=columns).succeeds().out
    text = words_of(out)
    for word in ("list", "run", "steps", "env", "jobs", "apply", "diff", "nano3", "--version"):
        assert word in text
    assert max(len(row) for row in out.splitlines()) <= int(columns)


@pytest.mark.parametrize("words", [[], ["nano3"], ["nano3", "data"], ["env"], ["steps"], ["jobs"]], ids=" ".join)
def test_a_group_without_a_command_shows_its_help(project, nemotron, words):
    outcome = nemotron(*words)
    assert outcome.code in (0, 2)
    assert "Usage: nemotron" in outcome.out + outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    "words",
    [["run"], ["apply"], ["diff"], ["list"], ["env", "list"], ["env", "show"], ["env", "check"], ["env", "schema"],
     ["env", "fields"], ["jobs", "list"], ["jobs", "show"], ["steps", "list"], ["steps", "show"], ["steps", "run"],
     ["nano3"], ["nano3", "data"], ["nano3", "data", "prep"], ["nano3", "data", "prep", "pretrain"]],
    ids=" ".join,
)  # fmt: skip
def test_every_command_has_help(project, nemotron, words):
    out = nemotron(*words, "--help").succeeds().out
    assert f"Usage: nemotron {' '.join(words)}" in out


def test_help_after_the_dashes_is_the_scripts(project, nemotron):
    assert "Usage:" not in nemotron("nano3", "pretrain", "-c", "tiny", "-d", "--", "--help").succeeds().out
