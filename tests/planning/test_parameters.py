"""What a recipe's header says of its parameters and models holds for every plan, before anything is done."""

from __future__ import annotations

import pytest

HEADER = """\
# /// script
# [tool.runspec]
# description = "A recipe with parameters."
# [tool.runspec.run]
# launch = "direct"
# [[tool.runspec.parameters]]
# name = "train.lr"
# description = "How fast it learns."
# type = "float"
# min = 0
# max = 1
# [[tool.runspec.parameters]]
# name = "train.steps"
# description = "How long it learns."
# type = "int"
# min = 1
# [[tool.runspec.parameters]]
# name = "model.name"
# description = "Which model to begin with."
# type = "str"
# choices = ["small", "large", "7"]
# required = true
# [[tool.runspec.parameters]]
# name = "data.split"
# description = "Which part of the data."
# required = true
# [[tool.runspec.parameters]]
# name = "shuffle"
# description = "Whether to shuffle."
# choices = [true, "twice"]
# [[tool.runspec.parameters]]
# name = "api_key"
# description = "A key of a server."
# type = "int"
# [[tool.runspec.models]]
# name = "large"
# parameter = "model.name"
# min_gpus = 16
# ///
from pathlib import Path
Path("ran").touch()
"""
DEFAULT = """\
train: {lr: 1e-3, steps: 10}
model:
  name: small
data: {split: train}
shuffle: true
api_key: 1
"""
RUN = ("fam", "train", "--dry-run")


@pytest.fixture
def recipe(project):
    return project.recipe("fam/train", header=HEADER, default=DEFAULT, open=DEFAULT.replace("train}", '"???"}'))


def test_what_is_right_is_planned(recipe, nemotron):
    nemotron(*RUN, "train.lr=1", "train.steps=1", "model.name=large", "run.env.gpus_per_node=16",
             "data.split=${model.name}", "shuffle=twice").succeeds()  # fmt: skip
    nemotron(*RUN, "model.name='7'", "~train.steps").succeeds()


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.lr=1.5", ["train.lr must be 0 to 1, not 1.5"]),
        ("train.lr=-1e-9", ["train.lr must be 0 to 1, not -1e-09"]),
        ("train.lr=true", ["train.lr must be a number, not true"]),
        ("++train.lr=fast", ["train.lr must be a number, not 'fast'"]),
        ("train.steps=0", ["train.steps must be 1 or more, not 0"]),
        ("train.steps=2.0", ["train.steps must be a whole number, not 2.0"]),
        ("train.steps=[1]", ["train.steps must be a whole number, not a list"]),
        ("model.name=larg", ["must be one of small, large, 7, not 'larg'", "did you mean 'large'?"]),
        ("model.name=7", ["model.name must be text, not 7", """model.name="'7'\""""]),
        ("model.name=null", ["model.name has no value", "model.name=small|large|7"]),
        ("shuffle=1", ["shuffle must be one of true, twice, not 1"]),
        ("shuffle=false", ["shuffle must be one of true, twice, not false"]),
        ("~data.split", ["data.split has no value, and the recipe needs one: Which part of the data."]),
    ],
)
def test_what_is_wrong_is_refused(project, recipe, nemotron, override, words):
    nemotron(*RUN, override).refuses(*words, "main.py:" if override == "~data.split" else "command line")
    nemotron(*RUN[:2], override).refuses(*words)
    assert not list(project.state.glob("jobs/*"))
    assert not (project.folder / "ran").exists()


def test_all_problems_come_at_once_each_with_its_place(project, recipe, nemotron):
    text = DEFAULT.replace("lr: 1e-3", "lr: 3").replace("small", "large")
    project.write("recipes/fam/train/config/wrong.yaml", text)
    done = nemotron(*RUN, "-c", "wrong", "train.steps=0", "run.env.gpus_per_node=8")
    done.refuses(
        "fam/train has 3 problems",
        "train.lr must be 0 to 1, not 3",
        "config/wrong.yaml:1",
        "train.steps must be 1 or more, not 0",
        "command line",
        "large needs 16 GPUs or more, and the job has 8",
        "config/wrong.yaml:3",
        "run.env.gpus_per_node=16",
    )
    assert done.err.count("see recipes/fam/train/main.py:") == 3


def test_a_value_of_a_profiles_has_its_place(project, nemotron):
    header = HEADER.replace('"train.steps"', '"run.wandb.project"').replace('"int"', '"str"', 1)
    project.recipe("fam/train", header=header.replace("# min = 1\n", '# choices = ["mine"]\n', 1), default=DEFAULT)
    nemotron(*RUN).refuses("run.wandb.project must be one of mine, not 'nemotron'", "env.toml:2 [wandb]")


def test_a_required_value_that_is_left_open(recipe, nemotron):
    nemotron(*RUN, "-c", "open").refuses("data.split has no value", "config/open.yaml:4", "data.split=…")
    nemotron(*RUN, "-c", "open", "data.split=test").succeeds()


def test_an_input_that_is_missing_is_told_with_them(project, nemotron):
    consumes = '# [[tool.runspec.consumes]]\n# name = "text"\n# type = "any"\n'
    header = HEADER.replace("# [[tool.runspec.models]]", f"{consumes}# [[tool.runspec.models]]")
    project.recipe("fam/train", header=header, default=DEFAULT + "run: {text: {path: '???'}}\n")
    done = nemotron(*RUN, "train.lr=2", "data.split='???'")
    done.refuses(
        "fam/train has 3 problems", "train.lr must be", "run.text.path has no value", "data.split has no value"
    )


def test_another_error_is_told_with_them(recipe, nemotron):
    done = nemotron(*RUN, "train.lr=2", "run.env.nodes=2")
    done.refuses("fam/train has 2 problems", "train.lr must be", "a local run has one node")


@pytest.mark.parametrize("override", ["++api_key=sk-1234", "model.name=${oc.env:MY_TOKEN}"])
def test_a_value_that_may_be_secret_is_not_shown(recipe, nemotron, monkeypatch, override):
    monkeypatch.setenv("MY_TOKEN", "sk-1234567890abcdef")
    done = nemotron(*RUN, override)
    done.refuses("may be a secret, and is not shown")
    assert "sk-1234" not in done.err


@pytest.mark.parametrize(
    ("words", "gpus"),
    [(("--run", "my-cluster", "run.env.nodes=1"), "8"), (("--run", "lepton"), "8"), ((), "none")],
)
def test_a_model_needs_its_gpus(recipe, nemotron, words, gpus):
    nemotron(*RUN, "model.name=large", *words).refuses(f"large needs 16 GPUs or more, and the job has {gpus}")
    nemotron(*RUN, *words).succeeds()


def test_gpus_that_nobody_knows_are_a_warning(recipe, nemotron):
    unknown = ("run.env.gpus_per_node=0", "run.env.gres=gpu:a:b:c")
    done = nemotron(*RUN, "model.name=large", "--run", "my-cluster", *unknown)
    assert "large needs 16 GPUs; how many the job has is not known" in done.succeeds().out


def test_enough_gpus_are_enough(recipe, nemotron):
    nemotron(*RUN, "model.name=large", "--run", "my-cluster").succeeds()


@pytest.mark.parametrize("dry_run", [("--dry-run",), ()])
def test_a_sweep_stops_before_its_first_job(project, recipe, nemotron, dry_run):
    nemotron("fam", "train", "-m", "model.name=small,huge", *dry_run).refuses("must be one of small, large", "'huge'")
    assert not list(project.state.glob("jobs/*"))
    assert not (project.folder / "ran").exists()


@pytest.mark.parametrize("dry_run", [("--dry-run",), ()])
@pytest.mark.parametrize(
    ("space", "words"),
    [
        ("train.lr=interval(0.1,2)", ["train.lr must be 0 to 1, not 2", "interval(0.1,2) may choose"]),
        ("train.steps=choice(5,0)", ["train.steps must be 1 or more, not 0"]),
        ("train.steps=range(0,3)", ["train.steps must be 1 or more, not 0"]),
        ("model.name=small,huge", ["must be one of small, large, 7, not 'huge'"]),
    ],
)
def test_what_a_sweeper_may_choose_is_looked_at_before_its_first_run(project, recipe, nemotron, space, words, dry_run):
    sweeper = ("hydra/sweeper=optuna", "hydra.sweeper.n_trials=2", "shuffle=true")
    nemotron("fam", "train", "-m", *sweeper, space, *dry_run).refuses(*words)
    assert not list(project.state.glob("jobs/*"))
    assert not (project.folder / "ran").exists()


def test_the_help_says_what_a_value_may_be(recipe, nemotron, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    shown = nemotron("fam", "train", "--help").succeeds().out
    for words in ("How fast it learns. 0 to 1", "Which model to begin with. One of small, large, 7", "1 or more"):
        assert words in shown
