"""A dry run writes nothing, asks nobody, and shows everything."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest
from support import HEADER, PROFILES, git, make_repository, snapshot

PLAN = ["nano3", "pretrain", "-c", "tiny"]
# A proxy nobody listens on, and no tool in reach: whatever asked the network or a scheduler would fail or be seen.
NO_NETWORK = {
    name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
}


@pytest.mark.slow
@pytest.mark.parametrize("profile", [None, *PROFILES])
@pytest.mark.parametrize(
    "more",
    [[], ["--full"], ["--script"], ["--cfg", "job"], ["--json"], ["--batch"], ["-m", "train.train_iters=1,2"]],
    ids=" ".join,
)
def test_nothing_is_written(project, nemotron_process, profile, more):
    if more == ["--batch"]:
        chosen = ["--batch", profile] if profile else []
    else:
        chosen = [*(["--run", profile] if profile else []), *more]
    before = snapshot(project.folder, project.home)
    outcome = nemotron_process(*PLAN, *chosen, "--dry-run", **NO_NETWORK, PYTHONDONTWRITEBYTECODE="1")
    outcome.succeeds()
    assert snapshot(project.folder, project.home) == before


@pytest.mark.slow
def test_nothing_is_started(project, nemotron_process):
    """Every tool a submission would use is on PATH, and says so if it is called."""
    tools, seen = project.home / "tools", project.home / "seen"
    tools.mkdir()
    for name in ("sbatch", "squeue", "sacct", "ssh", "scp", "rsync", "docker", "uv", "lep", "torchrun", "srun"):
        tool = tools / name
        tool.write_text(f"#!/bin/sh\necho {name} >> {seen}\nexit 1\n")
        tool.chmod(0o755)
    for profile in (None, *PROFILES):
        chosen = ["--run", profile] if profile else []
        nemotron_process(*PLAN, *chosen, "--dry-run", PATH=f"{tools}:/usr/bin:/bin", **NO_NETWORK).succeeds()
    assert not seen.exists()


@pytest.mark.slow
def test_the_repository_is_read_and_not_touched(project, nemotron_process):
    make_repository(project.folder)
    project.write("new file.txt", "1")
    project.write("env.toml", project.env_file.read_text() + "\n# changed\n")
    before = snapshot(project.folder)
    out = nemotron_process(*PLAN, "--run", "my-cluster", "--dry-run", PYTHONDONTWRITEBYTECODE="1").succeeds().out
    assert snapshot(project.folder) == before
    commit = git(project.folder, "rev-parse", "HEAD").strip()
    assert f"git commit {commit[:12]}, 2 files" in out
    assert "NOT sent: 1 uncommitted file" not in out, "the env.toml is read here, and what it says now holds"
    assert "NOT sent: 1 untracked file: new file.txt" in out


def test_everything_is_shown(project, nemotron):
    out = nemotron(*PLAN, "--run", "my-cluster", "--dry-run", "--full").succeeds().out
    for words in (
        "nano3/pretrain, config tiny on profile my-cluster (slurm, run)",
        "run.env.partition",
        "run.env.run_partition",
        "model.hidden_size",
        "bundle ",
        "4 nodes, 32 GPUs in all, 8 processes per node, 04:00:00: at most 128.0 GPU-hours",
        "#SBATCH --partition=interactive",
        "#SBATCH --nodes=4",
        "--- started with ---",
        "WANDB_PROJECT",
        "HF_HOME",
        "NEMO_RUN_DIR",
        "Dry run: nothing was written and nothing was submitted.",
    ):
        assert words in out
    batch = nemotron(*PLAN, "--batch", "my-cluster", "--dry-run").succeeds().out
    assert "#SBATCH --partition=batch" in batch


def test_the_json_is_the_same_and_complete(project, nemotron):
    shown = nemotron(*PLAN, "--run", "my-cluster", "--dry-run", "--json").succeeds()
    assert shown.err == ""
    data = shown.json
    assert set(data) == {"plan", "gpu_hours", "rendering"}
    assert set(data["rendering"]) == {"files", "command", "holes", "programs", "sent"}
    assert {key for file in data["rendering"]["files"] for key in file} == {
        "title",
        "name",
        "text",
        "language",
        "common",
    }
    texts = "\n".join(file["text"] for file in data["rendering"]["files"])
    name = data["plan"]["name"]
    plain = nemotron(*PLAN, "--run", "my-cluster", "--dry-run", "--full").succeeds().out
    other = re.search(r"job (\S+) in ", plain)[1]
    for row in texts.replace(name, other).splitlines():
        assert row.rstrip() in plain
    again = nemotron(*PLAN, "--run", "my-cluster", "--dry-run", "--json").succeeds().json
    same = json.loads(json.dumps(again).replace(again["plan"]["name"], name))
    assert same == data


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["20", "80"])
def test_it_can_be_pasted(project, nemotron_process, columns):
    """No wrapping, no markup eaten, no colour codes: the scripts on the screen are the scripts."""
    project.write(
        "env.toml", '[a]\nexecutor = "slurm"\nsetup_lines = "echo [bold]x[/bold] [/] \\\\[red] ' + "y" * 300 + '"\n'
    )
    arguments = [*PLAN, "--run", "a", "--dry-run"]
    out = nemotron_process(*arguments, COLUMNS=columns).succeeds().out
    assert "echo [bold]x[/bold] [/] \\[red] " + "y" * 300 in out.splitlines()
    assert "\x1b" not in out


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--full",)], ids=["page", "full"])
def test_with_colour_the_text_is_the_same(project, nemotron_process, more):
    def shown(**environment):
        out = nemotron_process(*PLAN, "--run", "my-cluster", "--dry-run", *more, **environment).succeeds().out
        text = re.sub(r"\x1b\[[0-9;]*m", "", out)
        name = re.search(r"job (\S+) in ", text)[1]
        rows = (re.sub("sha256 [0-9a-f]{12}", "DIGEST", row) for row in text.splitlines())
        return "\x1b[" in out, [row.rstrip().replace(name, "NAME") for row in rows]

    plain, coloured = shown(), shown(FORCE_COLOR="1")
    assert (plain[0], coloured[0]) == (False, True)
    assert coloured[1] == plain[1]


@pytest.mark.parametrize("profile", [None, "my-cluster"])
def test_the_scripts_are_valid_bash(project, nemotron, profile):
    data = nemotron(*PLAN, *(["--run", profile] if profile else []), "--dry-run", "--json").succeeds().json
    assert data["rendering"]["files"]
    for file in data["rendering"]["files"]:
        if file["language"] == "bash":
            subprocess.run(["bash", "-n"], input=file["text"], text=True, check=True)


def test_control_characters_do_not_reach_the_terminal(project, nemotron):
    project.recipe("mine/train", header=HEADER, default='text: "\\e[2J\\e]0;title\\a"\n')
    out = nemotron("mine", "train", "--dry-run", "--full").succeeds().out
    assert "\x1b" not in out
    assert "\\x1b[2J" in out
    typed = nemotron("mine", "train", "text='\x1b[2J'", "--dry-run").succeeds().out
    assert "\x1b" not in typed
    assert "text" in typed
    assert "\\x1b[2J" in typed


def test_arguments_after_the_dashes_reach_the_script(project, nemotron):
    words = ["--lr", "1e-3", "it's", "$HOME", "a b", "--run", "x=1", "--"]
    data = nemotron(*PLAN, "--dry-run", "--json", "--", *words).succeeds().json
    assert data["plan"]["launch"]["args"] == words
    script = next(file["text"] for file in data["rendering"]["files"] if "--lr" in file["text"])
    assert shlex.join(words) in script


def test_the_python_api_plans_the_same(project, nemotron):
    import nemo_runspec
    from nemo_runspec.planning.codec import load_plan
    from nemo_runspec.planning.diff import diff_plans

    nemotron(*PLAN, "--run", "my-cluster", "run.env.nodes=2", "--dry-run", "--out", "plan.json").succeeds()
    saved = load_plan(project.folder / "plan.json")
    planned = nemo_runspec.plan("nano3/pretrain", config="tiny", profile="my-cluster", overrides=["run.env.nodes=2"])
    assert diff_plans(saved, planned) == []


def test_the_python_api_can_be_called_again(project):
    import nemo_runspec

    names = {nemo_runspec.plan("nano3/pretrain", config="tiny").name for _ in range(3)}
    assert len(names) == 3
    assert nemo_runspec.load_profile("my-cluster").values["nodes"] == 4
