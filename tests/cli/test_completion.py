"""Shell completion, through the protocol a shell speaks: variables in, lines out."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture
def complete(project):
    """What the shell would offer after these words; the last one is incomplete."""

    def ask(*words, shell="bash"):
        line = " ".join(["nemotron", *words])
        by_shell = {
            "bash": {"_NEMOTRON_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words))},
            "zsh": {"_NEMOTRON_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line},
            "fish": {
                "_NEMOTRON_COMPLETE": "complete_fish",
                "_TYPER_COMPLETE_ARGS": line,
                "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            },
        }
        done = subprocess.run(
            [sys.executable, "-m", "nemotron"],
            cwd=project.folder,
            env=project.environment(**by_shell[shell]),
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout

    return ask


def offered(text: str) -> set[str]:
    return {row.strip() for row in text.splitlines() if row.strip()}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell(complete, shell):
    out = complete("nano3", "pretrain", "--run", "my", shell=shell)
    assert "my-cluster" in out
    assert "lepton" not in out


@pytest.mark.slow
def test_commands_and_recipes(complete):
    assert {"list", "env", "nano3"} <= offered(complete(""))
    assert {"data", "pretrain"} <= offered(complete("nano3", ""))
    assert offered(complete("nano3", "data", "prep", "p")) == {"pretrain"}


@pytest.mark.parametrize("option", ["--run", "-r", "--batch", "-b"])
def test_profiles(complete, option):
    found = offered(complete("nano3", "pretrain", option, ""))
    assert {"base-slurm", "my-cluster", "laptop", "box", "runai", "lepton"} <= found
    assert "wandb" not in found


def test_configs(complete):
    assert offered(complete("nano3", "pretrain", "-c", "")) == {"default", "tiny"}
    assert offered(complete("nano3", "pretrain", "--config", "t")) == {"tiny"}


def test_options(complete):
    assert {"--run", "--dry-run", "--config"} <= offered(complete("nano3", "pretrain", "--"))


@pytest.mark.slow
def test_override_keys(complete):
    found = offered(complete("nano3", "pretrain", "-c", "tiny", "train."))
    assert "train.train_iters=" in found
    assert all(word.startswith("train.") for word in found)
    slurm = offered(complete("nano3", "pretrain", "--run", "my-cluster", "run.env.p"))
    assert {"run.env.partition=", "run.env.packager="} <= slurm
    local = offered(complete("nano3", "pretrain", "run.env.p"))
    assert "run.env.partition=" not in local
    assert offered(complete("nano3", "pretrain", "train.train_iters=")) == set()


def test_steps_and_profiles_elsewhere(complete, project):
    project.recipe("steps/sft/automodel")
    assert offered(complete("steps", "run", "s")) == {"sft/automodel"}
    assert "my-cluster" in offered(complete("env", "show", "my"))


@pytest.mark.slow
@pytest.mark.parametrize("text", ["x = [", "[a]\nextends = 'a'\n", "[a]\nexecutor = 'slrum'\n"])
def test_a_broken_env_file_offers_less_and_says_nothing(complete, project, text):
    project.write("env.toml", text)
    complete("nano3", "pretrain", "--run", "")
    complete("nano3", "pretrain", "--run", "a", "run.env.")
    complete("nano3", "pretrain", "-c", "gone", "x")


@pytest.mark.slow
def test_a_broken_recipe_and_no_recipe(complete, project):
    project.recipe("mine/train", header="# /// script\n# [tool.runspec]\n# x = 1\n# ///\n")
    complete("mine", "train", "-c", "")
    complete("mine", "train", "a")
    complete("mine", "gone", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(project, nemotron_process, shell):
    """Typer asks which shell calls it; told not to look, it takes the name from the variable."""
    done = nemotron_process("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "Traceback" not in done.err
