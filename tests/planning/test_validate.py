"""A saved plan that somebody has edited is held against the rules of a profile before anything is made of it."""

from __future__ import annotations

import json

import pytest
from support import call


@pytest.fixture
def plan(project):
    """Writes a plan with one value changed: `plan("run.env.nodes", 3)`."""
    project.recipe("mine/train")
    call("mine", "train", "--run", "my-cluster", "-d", "--out", "plan.json").succeeds()
    text = (project.folder / "plan.json").read_text(encoding="utf-8")

    def change(path, value):
        data = json.loads(text)
        *above, last = path.split(".")
        table = data
        for key in above:
            table = table[int(key) if isinstance(table, list) else key]
        table[last] = value
        project.write("changed.json", json.dumps(data))
        return "changed.json"

    return change


def test_as_it_was_made(plan):
    for command in (("apply", "--dry-run", "plan.json"), ("diff", "plan.json", "plan.json")):
        call(*command).succeeds()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("run.env.nodse", 1, "unknown key 'run.env.nodse'"),
        ("run.env.nodes", "x", "run.env.nodes must be a whole number"),
        ("run.env.nodes", 10**30, "more than 15 digits"),
        ("run.env.account", "a\u202eb", "control character U+202E"),
        ("run.env", [], "run.env must be a table"),
        ("run.wandb", "x", "run.wandb must be a table"),
        ("run.wandb.tags", "x", "run.wandb.tags must be"),
        ("target.partition", "\x1b[2J", "control character U+001B"),
        ("target.open_mode", "x", "target.open_mode must be one of"),
        ("target.odd", 1, "unknown keys: odd"),
        ("odd", 1, "unknown keys: odd"),
        ("name", "../../x", "no name of a job"),
        ("mode", "x", "mode must be one of"),
        ("launch.kind", "x", "launch.kind must be one of"),
        ("launch.script", "../x", "no path inside the job's directory"),
        ("bundle.files.0.path", "/etc/cron.d/x", "no path inside the job's directory"),
        ("job_dir", "/a/../../etc", "no job's directory"),
        ("resources.nodes", 0, "resources.nodes must be 1 to"),
        ("resources.time", "soon", "resources.time is not a time limit"),
        ("env.0.name", "A B", "not the name of an environment variable"),
        ("config.value", float("nan"), "nan"),
        ("config.value", json.loads("[" * 200 + "]" * 200), "nested too deeply"),
        ("executor", "x", "damaged"),
    ],
)
def test_one_value_changed(plan, path, value, said):
    file = plan(path, value)
    call("apply", "--dry-run", file).refuses(said, "changed.json")
    call("apply", file).refuses(said, "changed.json")
    call("diff", "plan.json", file).refuses(said, "changed.json")


def test_a_file_that_is_too_large(project):
    with (project.folder / "plan.json").open("w") as file:
        file.truncate((16 << 20) + 1)
    call("apply", "--dry-run", "plan.json").refuses("larger than 16 MiB")


def test_what_never_ends(project):
    call("apply", "--dry-run", "/dev/zero").refuses("larger than 16 MiB")
