"""`nemo_rl/grpo`: what a script of NeMo-RL's is told of the job, and a stand-in that says what it was told."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import support
from nemo_rl_standin import GRPO, NAMED, nemo_rl, told
from support import HEADER, REPOSITORY, Project

from nemo_runspec.config.overrides import parse_override

SCRIPT = REPOSITORY / "recipes" / "nemo_rl" / "grpo" / "grpo.py"
sys.path.insert(0, str(SCRIPT.parent))

from grpo import command  # noqa: E402  (a recipe's script is no package)


@pytest.mark.parametrize(
    ("profile", "words", "cluster"),
    [
        ("my-cluster", (), {"num_nodes": 4, "gpus_per_node": 8}),
        ("my-cluster", ("run.env.nodes=2", "run.env.gpus_per_node=4"), {"num_nodes": 2, "gpus_per_node": 4}),
        # The header says 8; the shape is what each node has.
        ("lepton", ("run.env.nodes=2", "run.env.resource_shape=gpu.1xa100-80gb"), {"num_nodes": 2, "gpus_per_node": 1}),
        ("my-cluster", ("cluster.num_nodes=3",), {"num_nodes": 3, "gpus_per_node": 8}),
    ],
)
def test_the_cluster_is_what_the_job_has(nemotron, monkeypatch, profile, words, cluster):
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_tests")
    plan = nemotron(*GRPO, "--run", profile, *NAMED, *words, "run.env.cpus_per_task=16", "--dry-run", "--json")
    if profile == "lepton":  # which has no such key
        plan = nemotron(*GRPO, "--run", profile, *NAMED, *words, "--dry-run", "--json")
    made = plan.succeeds().json["plan"]
    assert made["config"]["cluster"] == cluster
    assert made["unfilled"] == []
    texts = json.dumps(plan.json).replace("\\", "").split('"gpus_per_node": ')[1:]
    told = [text for text in texts if '"flags"' in text]
    assert told and all(text.startswith(str(made["config"]["cluster"]["gpus_per_node"])) for text in told)
    assert made["config"]["checkpointing"]["checkpoint_dir"] == f"{made['run']['output_dir']}/checkpoints"


def test_the_dry_run_says_that_they_are_of_the_plan(nemotron, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_tests")
    page = nemotron(*GRPO, "--run", "lepton", *NAMED, "run.env.nodes=2", "--dry-run").succeeds().out
    assert "cluster.num_nodes = 2 default.yaml:15 of the plan" in " ".join(page.split())


def test_what_is_missing_is_told_before_anything_is_done(nemotron, project):
    nemotron(*GRPO, "--run", "lepton").refuses("script_path has no value", "config_path has no value")
    nemotron(*GRPO, *NAMED).refuses("secret HF_TOKEN, which the recipe requires", "export HF_TOKEN=…")
    assert not (project.state / "jobs").exists()


def run_here(project: Project, *words: str, **environment: str) -> support.Outcome:
    source = nemo_rl(project.folder / "nemo-rl")
    places = (
        f"source={source}",
        f"run.env.workdir={source}",
        "run.env.gpus_per_node=0",
        f"run.env.ray_venv={sys.prefix}",
        "run.env.ray_start_timeout=30m",
    )
    own = {"UV_NO_SYNC": "1", "UV_PROJECT_ENVIRONMENT": sys.prefix, "HF_TOKEN": "hf_of_the_tests", **environment}
    return support.process(project, *GRPO, *places, *words, timeout=900, **own)


@pytest.mark.slow
def test_the_script_is_told_what_the_job_has_and_its_exit_code_is_the_jobs(project: Project):
    out = run_here(project, *NAMED, 'overrides=["ends_with=7"]', "--", "grpo.max_num_steps=2")
    assert out.code == 7, out.out + out.err
    said = told(out.out)
    (folder,) = (project.state / "run" / "outputs").glob("nemo-rl-grpo-*")
    assert said["config"] == {
        "cluster": {"num_nodes": 1, "gpus_per_node": 0},
        "checkpointing": {"enabled": True, "checkpoint_dir": f"{folder}/checkpoints"},
        "grpo": {"max_num_steps": 2},
        "ends_with": 7,
    }
    assert (said["at"], said["token"]) == (str(project.folder / "nemo-rl"), True)
    assert (folder / "checkpoints").is_dir()
    assert "hf_of_the_tests" not in out.out + out.err


def test_a_script_that_is_nowhere_is_named_with_the_places(tmp_path):
    config = {"source": str(tmp_path), "script_path": "examples/none.py", "config_path": "any.yaml"}
    (tmp_path / "train.yaml").write_text(json.dumps(config))
    words = [sys.executable, str(SCRIPT), "--config", str(tmp_path / "train.yaml")]
    done = subprocess.run(words, env={**os.environ, "NEMOTRON_JOB_DIR": "/job"}, capture_output=True, text=True)
    assert done.returncode == 2
    places = f"{tmp_path}/examples/none.py, /job/code/examples/none.py"
    assert f"error: script_path: examples/none.py is not there; looked for {places}" in done.stderr


def test_what_hydra_would_take_apart_is_quoted(tmp_path):
    made = {"cluster": {"num_nodes": 2}, "checkpointing": {"checkpoint_dir": "/a b/it's=1,2"}, "overrides": ["x=1"]}
    for name in ("run.py", "any.yaml"):
        (tmp_path / name).touch()
    config = {"source": str(tmp_path), "script_path": "run.py", "config_path": "any.yaml", **made}
    words = command(config, ["y=2"])
    assert words[:5] == ["uv", "run", f"{tmp_path}/run.py", "--config", f"{tmp_path}/any.yaml"]
    assert words[5] == "cluster.num_nodes=2"
    assert parse_override(words[6]).value() == "/a b/it's=1,2"
    assert words[7:] == ["x=1", "y=2"]


REQUIRES = HEADER.replace('schema = "1"', 'schema = "1"\n# requires_env = ["MY_KEY", "SITE"]')


def test_a_variable_that_a_recipe_requires_is_asked_for(nemotron, project, monkeypatch):
    project.recipe("mine/stage", header=REQUIRES)
    nemotron("mine", "stage", "--run", "my-cluster").refuses(
        "secret MY_KEY, which the recipe requires, was not found", "export MY_KEY=…",
        "variable SITE, which the recipe requires, is not set", "--env SITE=…",
    )  # fmt: skip
    monkeypatch.setenv("MY_KEY", "a-key-of-the-tests")
    plan = nemotron("mine", "stage", "--run", "my-cluster", "--env", "SITE=here", "--dry-run", "--json").json["plan"]
    assert plan["unfilled"] == []
    assert [secret["name"] for secret in plan["secrets"]] == ["MY_KEY"]
    monkeypatch.setenv("SITE", "here")  # a job of this machine inherits it; one elsewhere does not
    nemotron("mine", "stage", "--run", "my-cluster").refuses("variable SITE")
    assert nemotron("mine", "stage", "--dry-run", "--json").json["plan"]["unfilled"] == []


def test_what_a_recipe_requires_are_names(nemotron, project):
    project.recipe("mine/stage", header=HEADER.replace('schema = "1"', 'schema = "1"\n# requires_env = ["A B"]'))
    nemotron("mine", "stage").refuses("requires_env must be a list of names, and holds 'A B'")


@pytest.mark.parametrize(
    ("yaml", "words"),
    [
        ("a: ${plan:node}", ("${plan:node}: no such word", "nodes")),
        ("run: {env: {env_vars: {A: '${plan:gpus}'}}}", ("follows from run.env, which cannot refer to it",)),
    ],
)
def test_what_the_plan_cannot_say_is_an_error_with_its_place(nemotron, project, yaml, words):
    project.recipe("mine/stage", default=yaml + "\n")
    nemotron("mine", "stage", "--run", "my-cluster").refuses(*words, "default.yaml:1")


def test_gpus_that_nobody_has_counted_are_not_made_up(nemotron, project):
    project.recipe("mine/stage", default="a: ${plan:gpus_per_node}\n")
    project.write("env.toml", '[whole]\nexecutor = "slurm"\naccount = "a"\npartition = "b"\nexclusive = true\n')
    nemotron("mine", "stage", "--run", "whole").refuses("how many GPUs a node has", "run.env.gpus_per_node=8")
    plan = nemotron("mine", "stage", "--run", "whole", "a=4", "--dry-run", "--json").succeeds().json["plan"]
    assert plan["config"] == {"a": 4}
