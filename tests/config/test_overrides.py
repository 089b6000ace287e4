"""Override parsing: the spelling that is offered when a value cannot be read, and sweeps in Hydra's own order."""

from __future__ import annotations

import json
import shlex
from datetime import date

import pytest
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nemo_runspec.config.overrides import canonical_override, expand_sweep, override_of, parse_override
from nemo_runspec.errors import UserError

PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=["Cs", "Cc"]), max_size=20)
AWKWARD = st.text(st.sampled_from("ab1 '\"\\,:=[]{}()~&$!?*%@/-.#"), max_size=12)


def pasted(remedy: str) -> str:
    """What the shell makes of the offered spelling."""
    words = shlex.split(remedy.removeprefix("quote it: "))
    assert len(words) == 1
    return words[0]


@pytest.mark.slow
@given(st.one_of(PRINTABLE, AWKWARD))
@settings(max_examples=700)
def test_the_offered_spelling_is_exactly_the_text(value):
    try:
        parse_override(f"key={value}")
    except UserError as error:
        assert error.where == "command line"
        if error.remedy.startswith("close it, "):  # a list or a table that was begun
            assert value[0] in "[{"
            parse_override(shlex.split(error.remedy.partition(": ")[2])[0])
            return
        assert error.remedy.startswith("quote it: "), (value, error.remedy)
        assert OverridesParser.create().parse_override(pasted(error.remedy)).value() == value


@pytest.mark.parametrize(
    "value",
    ["n[1-3]", "~/x", "a&b", "https://host/path?a=b&c=d", "x;y", "a b (c)", "{user}", "100%!", "a,b]", "'", '"', "'\""],
)
def test_values_people_type(value):
    try:
        parsed = parse_override(f"run.env.comment={value}")
        assert not isinstance(parsed.value(), str) or parsed.value() == value
    except UserError as error:
        assert OverridesParser.create().parse_override(pasted(error.remedy)).value() == value


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("k=[1,2", "k=[1,2]"), ("k=[1,", "k=[1]"), ("k={a:1", "k={a:1}"), ("+k=[[1,2],{a: b", "+k=[[1,2],{a: b}]"),
        ("k=['a b", "k=['a b']"), ("k=[a,b", "k=[a,b]"), ("k=[\"]", "k=[\"]\"]"),
    ],
)  # fmt: skip
def test_a_list_that_the_shell_has_cut(text, closed):
    with pytest.raises(UserError, match="a bracket is left open") as caught:
        parse_override(text)
    assert shlex.split(caught.value.remedy.partition(": ")[2]) == [closed]
    parse_override(closed)


@pytest.mark.parametrize("text", ["", "=", "=x", "key", "a b=c", "+", "~", "+=1", "a..b=1", "1a=x", "\x00=1", "a=\x00"])
def test_what_is_no_override_gets_a_remedy(text):
    try:
        parse_override(text)
    except UserError as error:
        assert error.where == "command line"
        assert error.remedy or "NUL" in error.what


@given(st.text(max_size=30))
@settings(max_examples=400)
def test_any_text_is_parsed_or_refused(text):
    try:
        parse_override(text)
    except UserError as error:
        assert error.what


def test_deep_nesting_is_refused():
    with pytest.raises(UserError):
        parse_override("a=" + "[" * 2_000)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("run.env.ntasks_per_node=8", "run.env.nproc_per_node=8"),
        ("run.env.container=x", "run.env.container_image=x"),
        ("+run.env.container=x", "+run.env.container_image=x"),
        ("++run.env.container=x", "++run.env.container_image=x"),
        ("~run.env.container", "~run.env.container_image"),
        ("run.env.nodes=2", "run.env.nodes=2"),
        ("run.env.unknown=2", "run.env.unknown=2"),
        ("run.env.containers=2", "run.env.containers=2"),
        ("other.run.env.container=2", "other.run.env.container=2"),
        ("run.env.env_vars.container=2", "run.env.env_vars.container=2"),
        ("run.env={container:x}", "run.env={container:x}"),
    ],
)
def test_aliases_on_the_command_line(text, canonical):
    assert canonical_override(text, "slurm") == canonical


VALUES = st.sampled_from(
    ["1", "1,2", "a,b,c", "choice(1,2)", "range(3)", "range(1,4)", "[1,2],[3]", "'x,y',z", "0.1,1e-3"]
)


@given(st.lists(st.tuples(st.sampled_from(["a", "b.c", "+d", "group"]), VALUES), max_size=3, unique_by=lambda o: o[0]))
@settings(max_examples=200)
def test_sweeps_are_expanded_in_hydras_order(pairs):
    overrides = [f"{key}={value}" for key, value in pairs]
    parsed = OverridesParser.create().parse_overrides(overrides)
    theirs = [tuple(combination) for combination in BasicSweeper.split_arguments(parsed, None)[0]]
    assert expand_sweep(overrides, 1000) == theirs


@pytest.mark.parametrize("text", ["a=choice()", "a=range(0)", "a=interval(0,1)", "a=glob(*)"])
def test_a_sweep_over_nothing(text):
    with pytest.raises(UserError):
        expand_sweep([text], 1000)


def test_a_sweep_needs_to_be_asked_for(project, nemotron):
    project.recipe("mine/train", default="lr: 1\nname: x\n")
    outcome = nemotron("mine", "train", "lr=1,2", "--dry-run")
    outcome.refuses("'lr=1,2' names several values", "add -m", "lr=[1,2]")
    remedy = outcome.err.rpartition("or as text ")[2].strip()
    nemotron("mine", "train", shlex.split(remedy)[0], "--dry-run").succeeds()


def test_a_sweep_is_several_plans(project, nemotron):
    project.recipe("mine/train", default="lr: 1\nname: x\n")
    plans = nemotron("mine", "train", "-m", "lr=1,2", "name=a,b", "--dry-run", "--json").succeeds().json
    values = [(p["plan"]["config"]["lr"], p["plan"]["config"]["name"]) for p in plans]
    assert values == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert len({p["plan"]["name"] for p in plans}) == 4
    text = nemotron("mine", "train", "-m", "lr=1,2", "--dry-run").succeeds().out
    assert text.startswith("2 runs\n")
    nemotron("mine", "train", "-m", "lr=range(2000)", "--dry-run").refuses("more than 1,000 combinations")
    nemotron("mine", "train", "-m", "lr=1,2", "--dry-run", "--out", "x.json").refuses("--out saves one plan")


def test_a_sweep_is_shown_with_the_group_that_its_runs_are_sent_in(project, nemotron):
    wandb = "run:\n  wandb:\n    project: p\n    mode: offline\n"
    project.recipe("mine/train", default=f"lr: 1\n{wandb}")
    shown = nemotron("mine", "train", "-m", "lr=1,2", "--dry-run", "--json").succeeds().json
    groups = {v["value"] for one in shown for v in one["plan"]["env"] if v["name"] == "WANDB_RUN_GROUP"}
    assert len(groups) == 1
    assert all(f"export WANDB_RUN_GROUP={min(groups)}" in json.dumps(one) for one in shown)


def test_a_sweep_over_a_group(project, nemotron):
    project.recipe("mine/train", **{"default": "defaults:\n  - o: a\n", "o/a": "x: 1\n", "o/b": "x: 2\n"})
    plans = nemotron("mine", "train", "-m", "o=a,b", "--dry-run", "--json").succeeds().json
    assert [p["plan"]["config"]["o"]["x"] for p in plans] == [1, 2]


@given(st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12))
@settings(max_examples=30)
def test_a_quoted_value_arrives_in_the_plan(project, value):
    import nemo_runspec

    assume("${" not in value)
    project.recipe("mine/train", default="name: x\n")
    escaped = value.replace("\\", "\\\\") if value.endswith("\\") else value
    assume(escaped == value)
    text = "name='" + value.replace("'", "\\'") + "'"
    assert nemo_runspec.plan("mine/train", overrides=[text]).config["name"] == value


KEYS = st.from_regex(r"[ab_][ab_09]{0,3}", fullmatch=True)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
    | st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(VALUES)
def test_a_value_of_a_yaml_file_is_given_as_it_is(value):
    text = override_of("some.key", value)
    assert repr(parse_override(text).value()) == repr(value)


@pytest.mark.parametrize("value", [date(2020, 1, 1), [b"bytes"], {"é": 1}])
def test_a_value_that_no_override_can_give(value):
    with pytest.raises(UserError, match=r"some\.key"):
        override_of("some.key", value)
