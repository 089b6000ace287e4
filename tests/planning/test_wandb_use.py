"""What `[wandb]` leaves open matters to a job that logs to W&B, and to no other."""

from __future__ import annotations

import pytest
from support import HEADER

OPEN = "wandb.entity is still a placeholder: 'YOUR-TEAM' (env.toml:3 [wandb])"
SECTION = '[wandb]\nproject = "nemotron"\nentity = "YOUR-TEAM"\n'
SHOW = "import os\nprint({k: v for k, v in os.environ.items() if k.startswith('WAN' + 'DB_')})\n"
TRACKED = {
    "its code": {"header": HEADER, "body": "import wandb\n"},
    "its dependencies": {"header": HEADER.replace("dependencies = []", 'dependencies = ["wandb>=0.17"]')},
    "its configuration": {"default": "logger:\n  wandb_project: x\n"},
    "settings of its own": {"default": "run:\n  wandb:\n    group: mine\n"},
}


@pytest.fixture
def opened(project):
    """The project with an entity that nobody has filled in."""
    project.write("env.toml", SECTION + "[here]\n")
    return project


def test_the_example_stops_no_local_run(project, nemotron, nemotron_process):
    """As README begins."""
    project.write("env.toml", nemotron("env", "example").succeeds().out)
    project.write("train.py", SHOW)
    for chosen in ([], ["--run", "local"]):
        ended = nemotron_process("run", "./train.py", *chosen).succeeds()
        assert "'WANDB_PROJECT': 'nemotron'" in ended.out
        assert "WANDB_ENTITY" not in ended.out
        assert "warning" not in ended.out + ended.err
    page = nemotron("nano3", "pretrain", "-c", "tiny", "--dry-run").succeeds().out
    assert "wrong or missing" not in page


@pytest.mark.parametrize("where", TRACKED)
def test_a_job_that_logs_to_it_is_stopped(opened, nemotron, nemotron_process, where):
    opened.recipe("mine/train", **TRACKED[where])
    assert OPEN in nemotron("mine", "train", "--dry-run").succeeds().out
    nemotron_process("mine", "train").refuses(OPEN)
    assert OPEN not in nemotron("mine", "train", "--dry-run", "run.wandb.entity=us").succeeds().out
    assert OPEN not in nemotron("mine", "train", "--dry-run", "run.wandb.mode=disabled").succeeds().out


def test_a_recipe_that_names_it_nowhere_does_not(opened, nemotron):
    opened.recipe("mine/train")
    plan = nemotron("mine", "train", "--dry-run", "--json").succeeds().json["plan"]
    assert plan["unfilled"] == []
    assert (plan["run"]["wandb"]["project"], plan["run"]["wandb"]["entity"]) == ("nemotron", None)
    assert "nothing in this job names W&B" in plan["sources"]["run.wandb.entity"]["text"]
    assert OPEN.replace("env.toml:3 [wandb]", "command line") in (
        nemotron("mine", "train", "--dry-run", "run.wandb.entity=YOUR-TEAM").succeeds().out
    )


def test_a_command_that_names_it(opened, nemotron):
    opened.write("train.py", "print(1)\n")
    opened.write("env.toml", SECTION + '[here]\nrun_command = "wandb agent me/sweep"\n')
    assert OPEN in nemotron("run", "./train.py", "--run", "here", "--dry-run").succeeds().out


PRODUCES = '# [[tool.runspec.produces]]\n# name = "model"\n# type = "model"\n'


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ('[wandb]\nproject = "p"\n', False),
        ('[wandb]\nproject = "p"\n[artifacts]\nbackend = "wandb"\n', True),
        ('[wandb]\nproject = "p"\nmode = "disabled"\n[artifacts]\nbackend = "wandb"\n', False),
        ('[artifacts]\nbackend = "file"\n', False),
    ],
)
def test_w_and_b_is_told_of_artifacts_where_somebody_asks_for_it(project, nemotron, sections, told):
    """`[wandb]` alone asks for runs; a recipe without artifacts has nothing to tell."""
    project.write("env.toml", sections)
    project.recipe("mine/make", header=HEADER[: HEADER.rindex("# ///")] + PRODUCES + "# ///\n")
    project.recipe("mine/plain")
    words = "nemotron_forward artifacts"
    given = ("--dry-run", "--json", "run.model=net")
    assert (words in nemotron("mine", "make", *given).succeeds().out) is told
    assert words not in nemotron("mine", "plain", "--dry-run", "--json").succeeds().out
