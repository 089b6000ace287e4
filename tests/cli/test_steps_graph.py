"""`steps plan` and `steps graph`: which steps lead from one type to another."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest
from support import Project, process

TYPES = """\
[ore]
[rock]
is_a = "ore"
[iron]
convert_to = [{ type = "tool", step = "forge/hammer" }]
[wood]
[tool]
[dream]
[statue]
"""
STEPS = {
    "dig/mine": ("", "ore rock?"),
    "smelt/fire": ("ore", "iron"),
    "smelt/sun": ("ore", "iron"),
    "forge/hammer": ("iron wood?", "tool"),
    "forge/carve": ("wood dream", "statue"),
}


@pytest.fixture
def project(project) -> Project:
    project.write("recipes/steps/types.toml", TYPES)
    for ident, (consumes, produces) in STEPS.items():
        project.write(f"recipes/steps/{ident}/step.py", _header("consumes", consumes, _header("produces", produces)))
        made = "".join(f"  {w.rstrip('?')}: {{artifact: my-{w.rstrip('?')}}}\n" for w in produces.split())
        project.write(f"recipes/steps/{ident}/config/default.yaml", f"run:\n{made}")
    return project


def _header(table: str, words: str, rest: str = "") -> str:
    rows = "".join(
        f'# [[tool.runspec.{table}]]\n# name = "{w.rstrip("?")}"\n# type = "{w.rstrip("?")}"\n'
        f"# required = {str(not w.endswith('?')).lower()}\n"
        for w in words.split()
    )
    if table == "produces":
        return f"{rows}# ///\n"
    return f'# /// script\n# [tool.runspec]\n# [tool.runspec.run]\n# launch = "direct"\n{rows}{rest}'


def test_the_fewest_steps_and_how_to_run_them(project):
    done = process(project, "steps", "plan", "--from", "rock", "--to", "tool", COLUMNS="80").succeeds()
    assert done.out.splitlines() == [
        "rock → tool: 2 steps",
        "",
        "    1  smelt/fire    rock (is ore) → iron",
        "    2  forge/hammer  iron → tool",
        "",
        "one after another:",
        "  nemotron steps run smelt/fire run.ore.path=ROCK",
        "  nemotron steps run forge/hammer run.iron=my-iron:latest",
        "all at once:",
        "  nemotron pipe smelt/fire forge/hammer smelt/fire:run.ore.path=ROCK",
        "",
        "1 other is as short: --all shows them",
    ]
    assert "smelt/sun" in process(project, "steps", "plan", "--from", "rock", "--to", "tool", "--all").out


def test_the_configuration_is_named_that_asks_for_an_optional_input(project):
    """The default one of a step may do without it, and do something else."""
    project.write("recipes/steps/forge/hammer/step.py", _header("consumes", "iron?", _header("produces", "tool")))
    project.write("recipes/steps/forge/hammer/config/of_iron.yaml", 'run:\n  iron: {path: "???"}\n')
    done = process(project, "steps", "plan", "--from", "iron", "--to", "tool").succeeds()
    assert "nemotron steps run forge/hammer -c of_iron run.iron.path=IRON" in done.out
    assert "nemotron pipe forge/hammer@of_iron forge/hammer:run.iron.path=IRON" in done.out


def test_a_checkpoint_is_measured_by_the_configuration_for_checkpoints(project):
    done = process(project, "steps", "plan", "--from", "checkpoint_hf", "--to", "eval_results").succeeds()
    assert "nemotron steps run eval/model_eval -c checkpoint run.model.path=CHECKPOINT_HF" in done.out


def test_a_plan_as_json(project):
    done = process(project, "steps", "plan", "--from", "rock", "--from", "wood", "--to", "tool", "--json").succeeds()
    assert (done.json["from"], done.json["to"], done.json["shortest"], done.json["missing"]) == (
        ["rock", "wood"],
        "tool",
        True,
        [],
    )
    first = done.json["chains"][0]
    assert [step["id"] for step in first["steps"]] == ["smelt/fire", "forge/hammer"]
    assert first["steps"][1]["inputs"] == [
        {"name": "iron", "type": "iron", "given": "iron", "step": "smelt/fire", "output": "iron"}
    ]
    assert first["pipe"] == "nemotron pipe smelt/fire forge/hammer smelt/fire:run.ore.path=ROCK"
    none = process(project, "steps", "plan", "--from", "wood", "--to", "statue", "--json")
    assert (none.code, none.json["chains"], none.json["missing"]) == (1, [], ["dream"])


@pytest.mark.parametrize(
    ("words", "code", "what", "remedy"),
    [
        (["--from", "wood", "--to", "statue"], 1,
         "nothing leads from wood to statue: no step makes dream, which would be needed",
         "say that you have it, too: --from wood --from dream"),
        (["--from", "tool", "--to", "dream"], 1, "no step makes that",
         "see what reads it: nemotron steps graph --from dream"),
        (["--from", "tool", "--to", "iron"], 1, "it is made without tool", "nemotron steps plan --to iron"),
        (["--from", "rocks", "--to", "iron"], 2, "no type 'rocks'", "did you mean 'rock'?"),
        (["--from", "rock", "--to", "irn"], 2, "no type 'irn'", "did you mean 'iron'?"),
        (["--from", "rock"], 2, "--to is missing", "nemotron steps plan --from"),
    ],
)  # fmt: skip
def test_where_nothing_leads_it_is_said_why(project, words, code, what, remedy):
    done = process(project, "steps", "plan", *words)
    assert (done.code, done.out) == (code, "")
    assert what in done.err and remedy in done.err


def test_nothing_to_be_done(project):
    done = process(project, "steps", "plan", "--from", "rock", "--to", "ore").succeeds()
    assert done.out == "rock → ore: nothing to be done: every rock is a ore\n"
    assert "smelt/fire" in process(project, "steps", "plan", "--to", "iron").succeeds().out, "of nothing"


def test_a_step_with_a_broken_header_is_left_out_with_a_word(project):
    project.write("recipes/steps/smelt/sun/step.py", "# /// script\n# [tool.runspec]\n# colour = 1\n# ///\n")
    done = process(project, "steps", "plan", "--from", "ore", "--to", "iron").succeeds()
    assert "1 step\n" in done.out and "as short" not in done.out
    assert "steps/smelt/sun is left out: its header is broken" in done.err


def test_the_tree(project):
    done = process(project, "steps", "graph", "--from", "rock", "--to", "tool", COLUMNS="80").succeeds()
    assert done.out.splitlines() == [
        "rock",
        "└─ = ore",
        "   ├─ smelt/fire → iron",
        "   │  └─ forge/hammer → tool",
        "   └─ smelt/sun → iron …",
        "",
        "= may be used as    + needs besides    … is opened elsewhere",
    ]


def test_the_whole_tree_names_every_step_once_at_least_in_80_columns(project):
    done = process(project, "steps", "graph", COLUMNS="80").succeeds()
    steps = [step["id"] for step in process(project, "steps", "list", "--json").json]
    assert [ident for ident in steps if ident not in done.out] == []
    assert max(map(len, done.out.splitlines())) <= 80
    assert "─ forge/carve + dream → statue" in done.out


@pytest.mark.parametrize("width", [50, 80])
def test_no_type_is_cut_in_a_narrow_tree(project, width):
    """A row that is too long goes on in the next line: three dots say that a type is opened elsewhere, and no more."""
    graph = ("steps", "graph")
    wide, narrow = (process(project, *graph, COLUMNS=columns).succeeds().out for columns in ("300", str(width)))
    *rows, legend = (line for line in narrow.splitlines() if line)
    assert max(map(len, rows)) <= width
    assert len(rows) > len(wide.splitlines()) - 2
    words = [re.findall(r"[\w/]+ …|[\w/]+", text) for text in ("\n".join([*rows, legend]), wide)]
    assert words[0] == words[1]


def test_the_picture_holds_every_step_and_type_and_no_box_lies_on_another(project, tmp_path):
    done = process(project, "steps", "graph", "--svg", str(tmp_path / "g.svg")).succeeds()
    assert done.out == f"wrote {tmp_path / 'g.svg'}\n"
    root = ET.parse(tmp_path / "g.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    graph = process(project, "steps", "graph", "--json").json
    texts = sorted(text.text for text in root.iter(f"{space}text"))
    read = {i["type"] for step in graph["steps"] for i in (*step["consumes"], *step["produces"])}
    assert texts == sorted([*(step["id"] for step in graph["steps"]), *read])
    boxes = [[float(rect.get(key)) for key in ("x", "y", "width", "height")] for rect in root.iter(f"{space}rect")]
    width, height = float(root.get("width")), float(root.get("height"))
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
    apart = [abs(a[0] - b[0]) >= a[2] or abs(a[1] - b[1]) >= a[3] for a in boxes for b in boxes if a is not b]
    assert all(apart)
    ends = [tuple(map(float, re.findall(r"-?[\d.]+", path.get("d"))[:2])) for path in root.iter(f"{space}path")][1:]
    assert all(any(abs(x - b[0] - b[2]) < 1 and b[1] < y < b[1] + b[3] for b in boxes) for x, y in ends)


def test_the_graph_of_nothing(project):
    done = process(project, "steps", "graph", "--from", "tool")
    assert (done.code, done.out) == (1, "")
    assert "no step lies between tool and any step" in done.err
    process(project, "steps", "graph", "--to", "tol").refuses("no type 'tol'", "did you mean 'tool'?")
    process(project, "steps", "graph", "--svg", "/dev/null/x").refuses("cannot write /dev/null/x")


def test_the_graph_as_json(project):
    graph = process(project, "steps", "graph", "--from", "iron", "--json").succeeds().json
    assert [step["id"] for step in graph["steps"]] == ["forge/hammer"]
    assert {"name": "wood", "type": "wood", "required": False} in graph["steps"][0]["consumes"]
    assert json.dumps(graph["types"]) == json.dumps([{"name": n, "is_a": []} for n in ("iron", "tool", "wood")])
