"""`--run` and `--batch` without a profile: `NEMOTRON_PROFILE` fills it in, and submits nothing by itself."""

from __future__ import annotations

import pytest

DRY = ("run", "./train.py", "--dry-run")


@pytest.fixture(autouse=True)
def script(project):
    project.write("train.py", "print('ran')\n")


@pytest.fixture
def chosen(monkeypatch):
    monkeypatch.setenv("NEMOTRON_PROFILE", "laptop")


@pytest.mark.parametrize(
    "words",
    [["--run"], ["-r"], ["--run", "--full"], ["--run", "run.env.nodes=1"], ["--run", "--", "--lr"]],
    ids=" ".join,
)
def test_it_fills_in_what_is_left_out(chosen, nemotron, words):
    assert "profile laptop" in nemotron("run", "./train.py", "--dry-run", *words).succeeds().out


def test_detached_too(chosen, nemotron):
    assert "profile laptop (local, batch)" in nemotron(*DRY, "--batch").succeeds().out
    assert "profile laptop (local, batch)" in nemotron("run", "./train.py", "-b", "-d").succeeds().out


def test_alone_it_does_nothing(chosen, nemotron):
    assert "on this machine (local, run)" in nemotron(*DRY).succeeds().out


def test_a_name_wins(chosen, nemotron):
    assert "profile my-cluster" in nemotron(*DRY, "--run", "my-cluster").succeeds().out


def test_what_the_shell_left_empty_is_no_wish(chosen, nemotron):
    """As of --run "$UNSET"."""
    nemotron(*DRY, "--run", "").refuses("--run needs a value")
    nemotron(*DRY, "--run=").refuses("--run needs a value")


def test_without_it_there_is_nothing_to_fill_in(nemotron, monkeypatch):
    remedy = "--run PROFILE; or export NEMOTRON_PROFILE=PROFILE"
    nemotron(*DRY, "--run").refuses("--run needs a value", remedy)
    nemotron(*DRY, "--run", "train.lr=1").refuses("--run needs a value, and what follows it is 'train.lr=1'", remedy)
    monkeypatch.setenv("NEMOTRON_PROFILE", " ")
    nemotron(*DRY, "--batch").refuses("--batch needs a value")


def test_one_that_is_no_profile_is_named(nemotron, monkeypatch):
    monkeypatch.setenv("NEMOTRON_PROFILE", "laptob")
    nemotron(*DRY, "--run").refuses("NEMOTRON_PROFILE names no profile: 'laptob'", "did you mean 'laptop'?")
    nemotron(*DRY).succeeds()


def test_the_options_are_the_scripts_after_the_dashes(chosen, nemotron):
    out = nemotron(*DRY, "--full", "--", "--run").succeeds().out
    assert "on this machine" in out
