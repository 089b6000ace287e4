"""The options of a recipe command: equal spellings, the double dash, saving and applying plans."""

from __future__ import annotations

import json
import re
import stat

import pytest
from support import HEADER, make_project, process

SPELLINGS = [
    ["--config", "tiny", "--run", "my-cluster", "--dry-run"],
    ["--config=tiny", "--run=my-cluster", "--dry-run"],
    ["-c", "tiny", "-r", "my-cluster", "-d"],
    ["-ctiny", "-rmy-cluster", "-d"],
    ["-d", "--run=my-cluster", "-ctiny"],
]


def plan_of(outcome):
    text = outcome.succeeds().out
    data = json.loads(text)
    return json.loads(text.replace(data["plan"]["name"], "NAME"))


@pytest.mark.parametrize("words", SPELLINGS[1:], ids=" ".join)
def test_spellings_are_equal(project, nemotron, words):
    first = plan_of(nemotron("nano3", "pretrain", *SPELLINGS[0], "--json"))
    assert plan_of(nemotron("nano3", "pretrain", *words, "--json")) == first


def test_batch_spellings_are_equal(project, nemotron):
    plans = [
        plan_of(nemotron("nano3", "pretrain", "-c", "tiny", *words, "-d", "--json"))
        for words in (["--batch", "my-cluster"], ["--batch=my-cluster"], ["-b", "my-cluster"], ["-bmy-cluster"])
    ]
    assert plans[0]["plan"]["mode"] == "batch"
    assert all(plan == plans[0] for plan in plans)


def test_options_and_overrides_may_be_mixed(project, nemotron):
    words = [
        "train.train_iters=7",
        "-d",
        "run.env.nodes=2",
        "--run",
        "my-cluster",
        "optimizer.lr=1",
        "--json",
        "-c",
        "tiny",
    ]
    plan = nemotron("nano3", "pretrain", *words).json["plan"]
    assert (plan["config"]["train"]["train_iters"], plan["config"]["optimizer"]["lr"]) == (7, 1)
    assert plan["resources"]["nodes"] == 2
    assert plan["overrides"] == ["train.train_iters=7", "run.env.nodes=2", "optimizer.lr=1"]


def test_a_tilde_is_an_override(project, nemotron):
    plan = nemotron("nano3", "pretrain", "-c", "tiny", "~logger", "-d", "--json").json["plan"]
    assert "logger" not in plan["config"]


@pytest.mark.parametrize(
    "after",
    [[], ["--lr", "1e-3"], ["--dry-run"], ["--run", "x"], ["--help"], ["a=b", "--", "-x"], ["", " "], ["--json"]],
    ids=" ".join,
)
def test_what_follows_the_dashes_is_the_scripts(project, nemotron, after):
    plan = nemotron("nano3", "pretrain", "-c", "tiny", "-d", "--json", "--", *after).json["plan"]
    assert plan["launch"]["args"] == after


def test_a_recipe_with_commands_below_it(project, nemotron):
    project.recipe("mine", default="level: 1\n")
    project.recipe("mine/below", default="level: 2\n")
    assert nemotron("mine", "-d", "--json").json["plan"]["config"] == {"level": 1}
    assert nemotron("mine", "below", "-d", "--json").json["plan"]["config"] == {"level": 2}


def test_out_saves_the_plan_privately(project, nemotron):
    outcome = nemotron("nano3", "pretrain", "-c", "tiny", "--run", "my-cluster", "-d", "--out", "plan.json").succeeds()
    path = project.folder / "plan.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "plan saved: plan.json  (nemotron apply plan.json)" in outcome.err
    assert json.loads(path.read_text())["profile"] == "my-cluster"
    shown = nemotron("apply", "plan.json", "--dry-run").succeeds().out
    assert shown.partition("Dry run:")[0] == outcome.out.partition("Dry run:")[0]


def test_out_and_json_together(project, nemotron):
    outcome = nemotron("nano3", "pretrain", "-c", "tiny", "-d", "--json", "--out", "plan.json").succeeds()
    assert outcome.json["plan"] == json.loads((project.folder / "plan.json").read_text())


@pytest.mark.parametrize("target", ["gone/plan.json", ".", "env.toml/plan.json"])
def test_a_plan_that_cannot_be_saved(project, nemotron, target):
    outcome = nemotron("nano3", "pretrain", "-c", "tiny", "-d", "--out", target)
    assert outcome.code == 2
    assert "cannot save the plan" in outcome.err


@pytest.mark.slow
def test_apply_runs_the_saved_plan_and_a_second_run_gets_a_new_name(project, nemotron_process):
    project.recipe("mine/train", default="value: first\n", body="import sys; print('argv', *sys.argv[2:])\n")
    nemotron_process("mine", "train", "value=second", "-d", "--out", "plan.json", "--", "--lr", "1").succeeds()
    saved = json.loads((project.folder / "plan.json").read_text())
    first = nemotron_process("apply", "plan.json").succeeds()
    assert "--lr 1" in first.out + first.err
    assert "value: second" in (project.state / "jobs" / saved["name"] / "train.yaml").read_text()
    again = nemotron_process("apply", "plan.json").succeeds()
    assert f"{saved['name']} has been run before" in again.err
    assert len(list((project.state / "jobs").glob("mine-train-*"))) == 2


def test_apply_refuses_a_recipe_that_has_changed(project, nemotron):
    project.recipe("mine/train", default="value: first\n")
    nemotron("mine", "train", "-d", "--out", "plan.json").succeeds()
    project.recipe("mine/train", default="value: other\n")
    nemotron("apply", "plan.json").refuses("the recipe has changed since the plan was made")
    assert not project.state.exists()


@pytest.mark.parametrize("profile", ["lepton", "runai"])
def test_apply_of_what_cannot_be_submitted(project, nemotron, profile):
    nemotron("nano3", "pretrain", "-c", "tiny", "--run", profile, "-d", "--out", "plan.json").succeeds()
    nemotron("apply", "plan.json").refuses("nothing was submitted")


@pytest.mark.slow
def test_from_another_directory(tmp_path, project, nemotron_process):
    """Nothing depends on where one stands, but for the env file and the recipes of the project around."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    nemotron_process("list", cwd=elsewhere).succeeds()
    plan = nemotron_process("nano3", "pretrain", "-c", "tiny", "-d", "--json", cwd=elsewhere).succeeds().json["plan"]
    assert (plan["profile"], plan["env_file"]) == (None, None)
    named = {"NEMOTRON_ENV_FILE": str(project.env_file)}
    arguments = ["nano3", "pretrain", "-c", "tiny", "--run", "my-cluster", "-d", "--json"]
    plan = nemotron_process(*arguments, cwd=elsewhere, **named).succeeds().json["plan"]
    assert plan["env_file"] == str(project.env_file)
    deep = project.folder / "src" / "deep"
    deep.mkdir(parents=True)
    assert nemotron_process(*arguments, cwd=deep).succeeds().json["plan"]["profile"] == "my-cluster"


def test_from_a_directory_that_is_gone(tmp_path):
    import subprocess
    import sys

    project = make_project(tmp_path)
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && exec {sys.executable} -m nemotron list"
    done = subprocess.run(["sh", "-c", script], env=project.environment(), capture_output=True, text=True)
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_project_whose_path_is_awkward(tmp_path):
    project = make_project(tmp_path / "a b 'c' $(d) é {e} [f]")
    project.recipe("mine/train", default="value: ${run.output_dir}\n", body="print('ran')\n")
    process(project, "mine", "train", "--run", "my-cluster", "--dry-run").refuses("remote_job_dir")
    outcome = process(project, "mine", "train").succeeds()
    assert "ran" in outcome.out + outcome.err


class TestScriptOfOnesOwn:
    @pytest.mark.slow
    def test_without_a_header(self, project, nemotron_process):
        project.write("train.py", "import sys; print('got', sys.argv[1:]); sys.exit(7 if 'fail' in sys.argv else 0)\n")
        outcome = nemotron_process("run", "./train.py", "--", "--lr", "1e-3").succeeds()
        assert "got ['--lr', '1e-3']" in outcome.out + outcome.err
        assert nemotron_process("run", "train.py", "--", "fail").code == 7

    def test_on_a_profile(self, project, nemotron):
        project.write("train.py", "print(1)\n")
        out = nemotron("run", "./train.py", "--run", "my-cluster", "--dry-run", "--", "--lr", "1e-3").succeeds().out
        assert "train on profile my-cluster (slurm, run)" in out
        assert "--lr 1e-3" in out

    def test_with_a_header_and_configs(self, project, nemotron):
        project.write("mine/train.py", HEADER)
        project.write("mine/config/default.yaml", "value: 1\n")
        plan = nemotron("run", "mine/train.py", "value=2", "-d", "--json").json["plan"]
        assert plan["config"] == {"value": 2}

    def test_with_a_yaml_of_its_own(self, project, nemotron):
        project.write("train.py", "print(1)\n")
        project.write("my.yaml", "value: 1\n")
        plan = nemotron("run", "train.py", "-c", "./my.yaml", "value=2", "-d", "--json").json["plan"]
        assert plan["config"] == {"value": 2}
        assert plan["launch"]["takes_config"]
        nemotron("run", "train.py", "-c", "tiny").refuses("declares no configs")

    def test_an_override_without_a_config(self, project, nemotron):
        project.write("train.py", "print(1)\n")
        nemotron("run", "train.py", "value=2", "-d").refuses("no key 'value'", "+value=2")
        plan = nemotron("run", "train.py", "run.env.nproc_per_node=2", "-d", "--json").json["plan"]
        assert plan["resources"]["nproc_per_node"] == 2

    @pytest.mark.slow
    def test_from_another_folder(self, project, nemotron_process, tmp_path):
        script = project.write("train.py", "print('hello from', __file__)\n")
        other = tmp_path / "other"
        other.mkdir()
        nemotron_process("run", str(script), cwd=other).succeeds()


def test_list(project, nemotron):
    project.recipe("mine/train", default="a: 1\n", tiny="a: 2\n")
    project.recipe("mine/broken", header=HEADER.replace("launch =", "lunch ="))
    project.recipe("steps/sft/automodel")
    out = nemotron("list").succeeds().out
    recipes, _, steps = out.partition("\nSteps  (nemotron steps run …)\n")
    assert recipes.startswith("Recipes  (nemotron …)\n")
    assert re.search(r"^  mine train +default, tiny  ", recipes, re.MULTILINE)
    assert re.search(r"^  sft/automodel ", steps, re.MULTILINE)
    assert "cannot be read: unknown key [tool.runspec.run] lunch" in out
    assert "did you mean 'launch'?" in out
    rows = {row["path"]: row for row in nemotron("list", "--json").json}
    assert "did you mean 'launch'?" in rows["mine/broken"]["error"]
    assert rows["nano3/pretrain"]["consumes"] == [{"name": "data", "type": "pretrain_blend"}]
    only = nemotron("list", "mine").succeeds().out
    assert "nano3" not in only
    nemotron("mine", "broken", "-d").refuses("unknown key [tool.runspec.run] lunch", "main.py:7")
    assert "cannot be read" in nemotron("mine", "broken", "--help").succeeds().out


def test_steps(project, nemotron):
    project.recipe("steps/sft/automodel", default="a: 1\n")
    assert "sft/automodel" in nemotron("steps", "list").succeeds().out
    assert "A recipe for tests." in nemotron("steps", "show", "sft/automodel").succeeds().out
    plan = nemotron("steps", "run", "sft/automodel", "-d", "--json", "a=2").json["plan"]
    assert plan["config"] == {"a": 2}
    nemotron("steps", "run", "sft/automdel").refuses("did you mean 'sft/automodel'?")


def test_env_commands(project, nemotron):
    out = nemotron("env", "list").succeeds().out
    assert "base-slurm" in out
    rows = {row["name"]: row for row in nemotron("env", "list", "--json").json["profiles"]}
    found = {"name": "my-cluster", "executor": "slurm", "extends": "base-slurm", "error": ""}
    assert rows["my-cluster"] == {**found, "file": str(project.env_file)}
    shown = nemotron("env", "show", "my-cluster").succeeds().out
    assert "env.toml:11 [base-slurm] via extends" in shown
    assert "env_vars.NCCL_DEBUG" in shown
    values = {row["key"]: row for row in nemotron("env", "show", "my-cluster", "--json").json["values"]}
    assert values["nproc_per_node"]["value"] == 8


def test_version(nemotron):
    assert nemotron("--version").succeeds().out.startswith("nemotron 0.")


def test_a_reader_that_goes_away(project):
    import subprocess
    import sys

    command = f"{sys.executable} -m nemotron nano3 pretrain -c tiny --run my-cluster --dry-run | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
