"""`nemotron steps list`, `show` and `run`: the catalog as a person asks it."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys

import pytest
import yaml

from nemo_runspec.steps import all_steps, step_id

TYPES = """\
[fruit]
description = "Any fruit."
[apple]
description = "An apple."
is_a = "fruit"
[juice]
description = "Pressed fruit."
[a_type_with_a_name_that_is_longer_than_any_column_of_a_narrow_terminal]
description = "A long one."
"""
LONG = "a_type_with_a_name_that_is_longer_than_any_column_of_a_narrow_terminal"


def header(*, tags="", consumes=(), produces=(), more=""):
    rows = ["[tool.runspec]", 'description = "What it does."', f"tags = [{tags}]", "[tool.runspec.run]",
            'launch = "direct"']  # fmt: skip
    for table, pairs in (("consumes", consumes), ("produces", produces)):
        for name, kind in pairs:
            required = "false" if kind.endswith("?") else "true"
            rows += [f"[[tool.runspec.{table}]]", f'name = "{name}"', f'type = "{kind.rstrip("?")}"',
                     f"required = {required}"]  # fmt: skip
    return "\n".join(["# /// script", *(f"# {row}" for row in [*rows, *more.splitlines()]), "# ///", ""])


MORE = """\
[tool.runspec.resources]
nodes = 1
gpus_per_node = 4
[[tool.runspec.parameters]]
name = "press.force"
description = "How hard."
type = "int"
min = 1
max = 9
[[tool.runspec.parameters]]
name = "kind"
description = "Of what kind."
choices = ["clear", "cloudy"]
[[tool.runspec.models]]
name = "clear"
parameter = "kind"
min_gpus = 4
[[tool.runspec.errors]]
pattern = "pips in the (press|sieve)"
cause = "It was not cored."
remedy = "core it first"
"""


@pytest.fixture(autouse=True)
def steps(project):
    project.write("recipes/steps/types.toml", TYPES)
    project.write("recipes/steps/garden/README.md", "# Garden\n\nWhat grows.\n")
    pick = header(tags='"outdoors"', produces=[("fruit", "apple")])
    project.recipe("steps/garden/pick", header=pick, default="# The usual basket.\nbasket: 1\n")
    configs = {
        "default": "# The large press.\npress: {force: 5, speed: 1}\nkind: clear\nrun: {fruit: {path: '???'}}\n",
        "tiny": "# A hand press.\npress: {force: 1, speed: 1}\nkind: clear\nrun: {fruit: {path: /data/a}}\n",
    }
    press = header(tags='"outdoors", "wet"', consumes=[("fruit", "fruit"), ("sugar", LONG + "?")],
                   produces=[("juice", "juice")], more=MORE)  # fmt: skip
    project.recipe("steps/kitchen/press", header=press, body="print('pressed')\n", **configs)
    project.recipe("steps/kitchen/deep/pick", header=header(consumes=[("juice", "juice")]))


@pytest.fixture
def listed(nemotron):
    return lambda *words: {row["id"]: row for row in nemotron("steps", "list", *words, "--json").succeeds().json}


def test_all_are_listed_with_all_that_is_known(listed):
    found = listed()
    assert {"garden/pick", "kitchen/press", "kitchen/deep/pick", "sft/automodel"} <= set(found)
    press = found["kitchen/press"]
    assert (press["category"], press["tags"], press["configs"]) == ("kitchen", ["outdoors", "wet"], ["default", "tiny"])
    assert press["consumes"][1] == {"name": "sugar", "type": LONG, "required": False}


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["--category", "kitchen"], {"kitchen/press", "kitchen/deep/pick"}),
        (["--tag", "outdoors"], {"garden/pick", "kitchen/press"}),
        (["--tag", "outdoors", "--category", "garden"], {"garden/pick"}),
        (["--produces", "fruit"], {"garden/pick"}),
        (["--produces", "apple"], {"garden/pick"}),
        (["--consumes", "apple"], {"kitchen/press"}),
        (["--consumes", "fruit", "--produces", "juice"], {"kitchen/press"}),
    ],
)
def test_conditions_hold_all_together(listed, words, ids):
    assert set(listed(*words)) == ids


def test_what_is_found_by_another_type_is_marked(listed, nemotron):
    assert listed("--produces", "fruit")["garden/pick"]["produces"][0]["matched"] == "fruit"
    assert "matched" not in listed("--produces", "apple")["garden/pick"]["produces"][0]
    assert listed("--consumes", "apple")["kitchen/press"]["consumes"][0]["matched"] == "apple"
    assert "apple (for fruit)" in nemotron("steps", "list", "--produces", "fruit").out
    assert "(apple for fruit)" in nemotron("steps", "list", "--produces", "fruit", "--tree").out


@pytest.mark.parametrize("form", [(), ("--json",), ("-o", "csv"), ("--tree",)])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--category", "kitchn"], ["no category 'kitchn'", "did you mean 'kitchen'?"]),
        (["--produces", "juce"], ["no type 'juce'", "did you mean 'juice'?"]),
        (["--consumes", "aple"], ["no type 'aple'", "did you mean 'apple'?"]),
        (["--tag", "weet"], ["no tag 'weet'", "did you mean 'wet'?"]),
        (["--tag", "zzzzz"], ["no tag 'zzzzz'", "outdoors"]),
        (["--consumes", LONG, "--tag", "wet", "--category", "garden"], ["no step is in category 'garden' and takes"]),
        (["--produces", LONG], [f"no step makes '{LONG}'"]),
    ],
)
def test_nothing_found_is_an_error_and_never_an_empty_list(nemotron, words, said, form):
    nemotron("steps", "list", *words, *form).refuses(*said)


@pytest.mark.parametrize("width", ["40", "80", "100", "120", "200"])
@pytest.mark.parametrize("words", [(), ("-o", "wide"), ("--tree",)])
def test_no_line_is_too_long_and_no_name_is_cut(nemotron, monkeypatch, width, words):
    monkeypatch.setenv("COLUMNS", width)
    out = nemotron("steps", "list", *words).succeeds().out
    fits = [line for line in out.splitlines() if LONG not in line]
    assert max(map(len, fits)) <= int(width)
    read = [recipe for recipe in all_steps() if not recipe.problem()]
    if "--tree" in words:
        assert all(step_id(recipe).partition("/")[2] in out for recipe in read)
        return
    assert all(step_id(recipe) in out for recipe in read)
    if int(width) >= 80:
        found = {each.type for recipe in read for each in (*recipe.spec.consumes, *recipe.spec.produces)}
        assert [name for name in found if name not in out] == []


def test_the_tree_has_categories_with_what_they_are_for(nemotron, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = nemotron("steps", "list", "--tree", "--tag", "outdoors").succeeds().out
    assert out.splitlines() == [
        "garden  What grows.",
        "  └─ pick  What it does.",
        "kitchen",
        "  └─ press  What it does.",
    ]


def test_other_forms_as_other_tables_have_them(nemotron):
    rows = list(csv.DictReader(io.StringIO(nemotron("steps", "list", "--category", "kitchen", "-o", "csv").out)))
    assert [(row["id"], row["consumes"]) for row in rows] == [
        ("kitchen/deep/pick", "juice"), ("kitchen/press", f"fruit {LONG}")]  # fmt: skip
    found = yaml.safe_load(nemotron("steps", "list", "-o", "yaml").succeeds().out)
    assert found == nemotron("steps", "list", "--json").json
    wide = nemotron("steps", "list", "--category", "garden", "-o", "wide").succeeds().out.splitlines()
    assert wide[0].split() == ["STEP", "TAKES", "MAKES", "CONFIGS", "TAGS", "DOES"]
    nemotron("steps", "list", "-o", "wied").refuses("did you mean 'wide'?")
    nemotron("steps", "list", "--tree", "--json").refuses("--tree and --json exclude each other")


def test_a_pipe_gets_a_line_for_each_step(nemotron):
    lines = nemotron("steps", "list", "--category", "kitchen").succeeds().out.splitlines()
    assert len(lines) == 3
    assert f"fruit, {LONG}?" in lines[2]


def test_a_step_that_cannot_be_read_is_listed_with_why(project, nemotron):
    project.recipe("steps/garden/broken", header=header().replace("description", "discription"))
    found = {row["id"]: row for row in nemotron("steps", "list", "--json").json}
    assert "unknown key [tool.runspec] discription" in found["garden/broken"]["error"]
    for words in ((), ("--tree",), ("-o", "wide")):
        assert "discription" in nemotron("steps", "list", *words).succeeds().out
    assert "1 step cannot be read: nemotron steps lint" in nemotron("steps", "list", "--tag", "wet").succeeds().err
    nemotron("steps", "show", "garden/broken").refuses("unknown key [tool.runspec] discription")


@pytest.mark.parametrize("ident", ["kitchen/press", "press", "/press/"])
def test_a_step_is_shown_by_any_name_that_is_its_own(nemotron, ident):
    shown = nemotron("steps", "show", ident).succeeds().out
    assert shown.splitlines()[0] == "kitchen/press"
    for words in (
        "What it does.", "outdoors, wet", "1 node with 4 GPUs",
        f"{LONG}?", "run.juice", "The large press.", "needs run.fruit.path",
        "press.force=1", "run.fruit.path=/data/a", "press.force", "How hard. 1 to 9",
        "Of what kind. One of clear, cloudy",
        "pips in the (press|sieve)", "It was not cored.", "fix: core it first",
        "nemotron steps run kitchen/press -c tiny -r slurm_kitchen_press",
    ):  # fmt: skip
        assert words in shown, words


def test_ids_that_are_none_or_several(nemotron):
    for verb in ("show", "run"):
        nemotron("steps", verb, "pick").refuses("may be 2 steps", "garden/pick, kitchen/deep/pick")
        nemotron("steps", verb, "pres").refuses("no step 'pres'", "did you mean 'press'?")
        nemotron("steps", verb, "kitchen").refuses("of 'kitchen' there are kitchen/deep/pick, kitchen/press")
        nemotron("steps", verb, "../kitchen/press").refuses("no step")
        nemotron("steps", verb, "zzzz").refuses("nemotron steps list")


def test_show_as_json(nemotron):
    found = nemotron("steps", "show", "press", "--json").succeeds().json
    assert found["configs"][1]["changes"] == {"press.force": 1, "run.fruit.path": "/data/a"}
    assert found["configs"][0]["needs"] == ["run.fruit.path"]
    assert [(each["name"], each["default"]) for each in found["parameters"]] == [("press.force", 5), ("kind", "clear")]
    assert found["models"][0]["min_gpus"] == 4
    assert found["resources"] == {"nodes": 1, "gpus_per_node": 4}


def test_examples_name_the_users_own_profiles(project, nemotron):
    project.env_file.write_text('[my_kitchen_press]\nexecutor = "slurm"\naccount = "a"\n[local_kitchen_press]\n')
    found = nemotron("steps", "show", "press", "--json").json["examples"]
    assert found[0] == "nemotron steps run kitchen/press -c tiny -r local_kitchen_press"
    assert "nemotron steps run kitchen/press -c tiny -r my_kitchen_press" in found
    assert "nemotron steps run kitchen/press -c tiny -r lepton_kitchen_press" in found
    assert "lacks are written by" in re.sub(r"\s+", " ", nemotron("steps", "show", "press").out)


def test_every_built_in_step_is_shown(nemotron, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for recipe in all_steps():
        assert nemotron("steps", "show", step_id(recipe)).succeeds().out.startswith(step_id(recipe))


@pytest.mark.parametrize("option", ["-r", "--run", "-b", "--batch"])
@pytest.mark.parametrize("command", [("steps", "run", "press"), ("steps", "run", "kitchen/press")])
def test_a_step_is_run_as_a_recipe_is(nemotron, command, option):
    plan = nemotron(*command, "-c", "tiny", option, "laptop", "--dry-run", "--json").succeeds().json["plan"]
    assert (plan["recipe"]["path"], plan["profile"]) == ("steps/kitchen/press", "laptop")
    assert plan["mode"] == ("run" if "r" in option.strip("-")[0] else "batch")
    recipe = (
        nemotron("nano3", "pretrain", "-c", "tiny", option, "laptop", "--dry-run", "--json").succeeds().json["plan"]
    )
    assert (recipe["mode"], recipe["profile"]) == (plan["mode"], "laptop")


def test_its_parameters_are_enforced(nemotron):
    nemotron("steps", "run", "press", "-c", "tiny", "press.force=10", "--dry-run").refuses("must be 1 to 9, not 10")
    nemotron("steps", "run", "press", "-c", "tinny", "--dry-run").refuses("did you mean 'tiny'?")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("show", "kitchen/p"), {"kitchen/press"}),
        (("run", "pres"), {"kitchen/press"}),
        (("list", "--category", "kit"), {"kitchen"}),
        (("list", "--produces", "jui"), {"juice"}),
        (("list", "--consumes", "appl"), {"apple"}),
        (("list", "--tag", "we"), {"wet"}),
        (("list", "-o", "w"), {"wide"}),
        (("run", "kitchen/press", "-c", "t"), {"tiny"}),
        (("run", "press", "-c", "t"), {"tiny"}),
        (("run", "press", "press.f"), {"press.force="}),
        (("run", "press", "kind=cl"), {"kind=clear", "kind=cloudy"}),
    ],
)
def test_the_shell_completes(project, typed, offered):
    asked = {"_NEMOTRON_COMPLETE": "complete_zsh", "_NEMOTRON_LINE": " ".join(["nemotron", "steps", *typed])}
    done = subprocess.run([sys.executable, "-m", "nemotron"], cwd=project.folder, capture_output=True, text=True,
                          env={**os.environ, **project.environment(**asked)})  # fmt: skip
    assert {row.split("\t")[1] for row in done.stdout.splitlines() if row} == offered
