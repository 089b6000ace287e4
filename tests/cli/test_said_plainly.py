"""Mistakes and previews in words that name what was written."""

from __future__ import annotations

import pytest
from support import HEADER


def test_defaults_that_lead_back_to_themselves(project, nemotron):
    first = "defaults: [second, _self_]\nx: 1\n"
    project.recipe("mine/circle", default=first, second="defaults: [third, _self_]\n", third="defaults: [default]\n")
    nemotron("mine", "circle", "--dry-run").refuses(
        "the defaults of config 'default' lead back to themselves: default -> second -> third -> default",
        "config/default.yaml",
    )


def test_a_group_that_leads_back_to_itself(project, nemotron):
    project.recipe("mine/circle", default="defaults: [model: big]\n")
    project.write("recipes/mine/circle/config/model/big.yaml", "defaults: [small]\n")
    project.write("recipes/mine/circle/config/model/small.yaml", "defaults: [big]\n")
    nemotron("mine", "circle", "--dry-run").refuses("model/big -> model/small -> model/big")


def test_short_options_with_an_equals_sign(project, nemotron):
    project.recipe("mine/short", default="value: 1\n", other="value: 2\n")
    plan = nemotron("mine", "short", "-c=other", "-r=laptop", "--dry-run", "--json").succeeds().json["plan"]
    assert (plan["config_name"], plan["profile"]) == ("other", "laptop")
    nemotron("mine", "short", "-c=", "--dry-run").refuses("--config needs a value")
    batch = nemotron("mine", "short", "-b=laptop", "-d", "--json").succeeds().json["plan"]
    assert batch["mode"] == "batch"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[1]", "startup_commands must be a list of strings: item 1 is a number"),
        ('["a", {b = 1}]', "startup_commands must be a list of strings: item 2 is a table"),
        ("{a = 1}", "startup_commands must be a list of strings, not a table"),
    ],
)
def test_a_list_that_holds_something_else(project, nemotron, value, said):
    project.env_file.write_text(f'[c]\nexecutor = "slurm"\nstartup_commands = {value}\n')
    nemotron("nano3", "pretrain", "-c", "tiny", "--run", "c", "--dry-run").refuses(said)


def test_a_table_that_holds_something_else(project, nemotron):
    project.env_file.write_text('[c]\nexecutor = "slurm"\nenv_vars = {A = "x", B = [1]}\n')
    nemotron("nano3", "pretrain", "-c", "tiny", "--run", "c", "--dry-run").refuses("booleans: B is a list")


def test_what_cannot_be_resolved(project, nemotron):
    project.recipe("mine/lacking", default="x: ${oc.env:NOT_SET_ANYWHERE}\ny: ${art:model,path}\n")
    done = nemotron("mine", "lacking", "--dry-run")
    done.refuses("cannot resolve x: the environment variable NOT_SET_ANYWHERE is not set; give a default")
    assert "Error raised" not in done.err


def test_a_plan_that_is_saved_is_written(project, nemotron):
    project.recipe("mine/saved")
    shown = nemotron("mine", "saved", "--dry-run", "--out", "plan.json").succeeds()
    assert "Dry run: the plan goes to plan.json, and nothing was run." in shown.out
    assert "nothing was written" not in shown.out + shown.err
    assert "nothing was written" in nemotron("mine", "saved", "--dry-run").succeeds().out


def test_a_script_without_a_header_is_listed_with_that(project, nemotron):
    project.write("recipes/mine/bare/train.py", "print(1)\n")
    project.write("recipes/mine/bare/config/default.yaml", "x: 1\n")
    project.write("recipes/mine/started/go.py", 'if __name__ == "__main__":\n    print(1)\n')
    project.write("recipes/mine/helpers/tools.py", "VALUE = 1\n")
    listed = nemotron("list").succeeds().out
    assert "train.py has no [tool.runspec]" in listed
    assert "go.py has no [tool.runspec]" in listed
    assert "helpers" not in listed
    nemotron("mine", "bare").refuses("has no [tool.runspec]", "nemotron run")


CLOUDS = """
[cluster]
executor = "slurm"
account = "acme"
tunnel = "ssh"
host = "login"
[login]
executor = "slurm"
account = "acme"
[lepton]
executor = "lepton"
container_image = "nvcr.io/nvidia/nemo:25.11"
nemo_run_dir = "/lustre/nemo_run"
resource_shape = "gpu.8xh100-sxm"
node_group = "group"
mounts = ["${auto_mount:git+https://github.com/me/it.git@main,/opt/it}"]
"""


@pytest.fixture
def elsewhere(project):
    project.env_file.write_text(CLOUDS)
    project.recipe(
        "mine/paths", header=HEADER, default="data: ${oc.env:PWD}/data\nhome: ${oc.env:HOME}\nout: ${run.output_dir}\n"
    )
    return project


def test_paths_of_this_machine_in_a_job_elsewhere(elsewhere, nemotron, monkeypatch):
    monkeypatch.setenv("PWD", str(elsewhere.folder))
    shown = nemotron("mine", "paths", "--run", "cluster", "--dry-run").succeeds().out
    assert f"data = {elsewhere.folder}/data" in shown
    assert f"lies in {elsewhere.folder} of this machine; the job runs on another" in shown
    assert f"home = {elsewhere.home}" in shown
    assert shown.count("the job runs on another") == 2
    for profile in ("login", None):
        run = ("--run", profile) if profile else ()
        assert "runs on another" not in nemotron("mine", "paths", *run, "--dry-run").succeeds().out


def test_a_repository_cannot_be_mounted_on_a_cloud(elsewhere, nemotron):
    nemotron("mine", "paths", "--run", "lepton", "--dry-run").refuses(
        "${auto_mount:git+https://github.com/me/it.git@main,/opt/it}: executor 'lepton' cannot mount a repository",
        "env.toml:",
        "git clone",
    )
