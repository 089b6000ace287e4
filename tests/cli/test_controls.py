"""ESC, C1 and bidirectional controls in any name or value: shown as what they are, and never sent."""

from __future__ import annotations

import json

import pytest
from job_records import record, stored
from support import ENV_TOML, HEADER, call

from nemo_runspec.records import JobStore
from nemo_runspec.visible import hidden_in, visible

ODD = ["\x1b[31m", "\x1b]0;title\x07", "\x9b2J", "\u202e", "\u2066", "\x7f", "\x08", "\r"]
DRIVING = set("\x1b\x07\x9b\u202e\u2066\x7f\x08\r")


def shows(outcome, *, code=0):
    assert outcome.code == code, outcome
    assert not DRIVING & set(outcome.out + outcome.err), repr(outcome.out + outcome.err)
    return outcome


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_a_value_of_the_config_is_shown(project, odd):
    """What a recipe reads is the user's own text: it is sent as it is, and seen as it is."""
    project.recipe("mine/train", default=f"value: {json.dumps('a' + odd)}\n")
    for profile in ((), ("--run", "my-cluster"), ("--run", "lepton")):
        shows(call("mine", "train", *profile, "-d"))
        found = shows(call("mine", "train", *profile, "-d", "--json"))
        assert found.json["plan"]["config"]["value"] == f"a{odd}", "JSON reads as the same text"


@pytest.mark.parametrize("odd", ODD[:-1], ids=ascii)
@pytest.mark.parametrize("key", ["account", "partition", "container_image"])
def test_a_value_of_a_profile_is_refused(project, odd, key):
    project.recipe("mine/train")
    text = json.dumps(f"a{odd}").replace("\\b", "\\u0008")
    project.write(
        "env.toml",
        ENV_TOML.replace("[my-cluster]\n", f"[my-cluster]\n{key} = {text}\n").replace('partition = "batch"\n', ""),
    )
    for command in (("mine", "train", "--run", "my-cluster", "-d"), ("env", "check")):
        outcome = shows(call(*command), code=2)
        assert "control character U+" in outcome.err
    shows(call("env", "list"))


@pytest.mark.parametrize("odd", ODD[:-1], ids=ascii)
def test_an_argument_for_the_script_is_shown_and_stays_what_it_is(project, odd):
    project.recipe("mine/train")
    shows(call("mine", "train", "-d", "--", f"a{odd}"), code=0)
    plan = call("mine", "train", "-d", "--json", "--", f"a{odd}").succeeds().json
    assert plan["plan"]["launch"]["args"] == [f"a{odd}"]


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_errors_show_what_was_typed(project, odd):
    for command in (("mine", odd), (odd,), ("jobs", "show", f"x{odd}"), ("env", "show", odd)):
        shows(call(*command), code=2)


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_names_of_folders_and_what_stands_in_records(project, odd):
    store = JobStore(project.state / "jobs")
    (store.root / f"a{odd}b").mkdir(parents=True)
    texts = {
        "cause": odd,
        "cwd": odd,
        "host": odd,
        "argv": (odd,),
        "recipe": f"x/{odd}",
        "profile": odd,
        "metrics": {odd: 1.0},
    }
    stored(store, record("job", ("planned", ("failed", f"because{odd}")), exit_code=3, **texts))
    for command in (("list",), ("list", "--json"), ("show", "job"), ("show", "job", "--json"), ("status", "job")):
        outcome = call("jobs", *command)
        shows(outcome, code=outcome.code)
        assert outcome.code in (0, 1)


def test_descriptions_of_recipes(project):
    project.recipe("mine/train", header=HEADER.replace("A recipe for tests.", "A \\u202e recipe\\u001b[2J."))
    for command in (("list",), ("list", "--json"), ("mine", "--help"), ("mine", "train", "--help")):
        shows(call(*command))


def test_colours_pass_on_a_terminal_and_nothing_else(project, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    stored(JobStore(project.state / "jobs"), record("job", ("planned", ("failed", "\x1b[2J\u202e")), exit_code=3))
    shown = call("jobs", "list").succeeds().out
    assert "\x1b[31m" in shown
    assert "\x1b[2J" not in shown and "\u202e" not in shown


def test_words():
    assert visible("a\x1bb\n\tc\u202e") == "a\\u001bb\n\tc\\u202e"
    assert json.loads(f'"{visible(chr(0x202E))}"') == "\u202e"
    assert hidden_in(["a", "b\u2066"]) == "U+2066"
    assert hidden_in("plain é 漢 \n\t") is None
