"""A plan as JSON and back; what is said of a file that is no plan; what differs between two."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from types import UnionType
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import PROFILES

import nemo_runspec
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.errors import UserError
from nemo_runspec.planning.codec import load_plan, plan_from_json, plan_to_dict, plan_to_json
from nemo_runspec.planning.diff import diff_plans
from nemo_runspec.planning.rename import rename
from nemo_runspec.plans import model
from nemo_runspec.plans.target import Target
from nemo_runspec.source import Layer, Source


def a(kind: type) -> st.SearchStrategy[Any]:
    """Any value of a frozen dataclass of the plan, by the types it declares."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{f.name: of_type(hints[f.name], f.name) for f in fields(kind)})


JSON_TABLES = st.dictionaries(
    st.text(max_size=4),
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2),
    max_size=3,
)


REAL = st.floats(allow_nan=False)
"""What is no number does not equal itself."""
BY_HINT = {
    float: REAL,
    dict[str, float]: st.dictionaries(st.text(max_size=4), REAL, max_size=3),
    dict[str, Any]: JSON_TABLES,
}


def of_type(hint: Any, name: str) -> st.SearchStrategy[Any]:
    if name == "schema":
        return st.just(model.PLAN_SCHEMA)
    if name == "executor":
        return st.just("slurm")
    if name == "target" and hint is Target:
        return a(SlurmTarget)
    if isinstance(hint, UnionType):
        return st.one_of([of_type(each, name) for each in hint.__args__])
    if hint == dict[str, Source]:
        return st.dictionaries(st.text(max_size=4), st.from_type(Source), max_size=3)
    if getattr(hint, "__origin__", None) is tuple and hasattr(hint.__args__[0], "__dataclass_fields__"):
        return st.lists(a(hint.__args__[0]), max_size=2).map(tuple)
    if hasattr(hint, "__dataclass_fields__"):
        return a(hint)
    return BY_HINT[hint] if hint in BY_HINT else st.from_type(hint)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=60)
def test_any_plan_survives_json(data):
    plan = data.draw(a(model.Plan))
    text = plan_to_json(plan)
    again = plan_from_json(text, "plan.json")
    assert again == plan
    assert plan_to_json(again) == text


@pytest.mark.parametrize("profile", [None, *PROFILES])
def test_real_plans_survive_json(project, profile):
    plan = nemo_runspec.plan("nano3/pretrain", config="tiny", profile=profile)
    again = plan_from_json(plan_to_json(plan), "plan.json")
    assert again == plan
    assert next(iter(plan_to_dict(plan))) == "schema"


KEYS_OF_0_1_0 = {
    "auto_mounts", "bundle", "config", "config_name", "consumes", "env", "env_file", "executor", "job_dir", "launch",
    "mode", "name", "overrides", "package", "produces", "profile", "python", "recipe", "resources", "run", "schema",
    "secrets", "sources", "target", "unfilled", "warnings",
}  # fmt: skip


@pytest.mark.parametrize("profile", [None, *PROFILES])
def test_the_earlier_release_reads_a_plan_that_can_be_submitted(project, profile):
    """It takes a plan with a key that it does not know for damaged: a colleague may have it still."""
    assert set(plan_to_dict(nemo_runspec.plan("nano3/pretrain", config="tiny", profile=profile))) == KEYS_OF_0_1_0


def test_a_number_is_not_taken_for_false(project):
    plan = nemo_runspec.plan("nano3/pretrain", config="tiny")
    plan = replace(plan, sources={**plan.sources, "a": Source(Layer.DEFAULT, line=0)})
    assert plan_from_json(plan_to_json(plan), "plan.json") == plan


@pytest.fixture
def saved(project):
    return plan_to_dict(nemo_runspec.plan("nano3/pretrain", config="tiny", profile="my-cluster"))


def test_another_schema_is_named(saved):
    for schema in (0, 2, "1", None, 1.5, [1]):
        with pytest.raises(UserError, match="has schema") as caught:
            plan_from_json(json.dumps({**saved, "schema": schema}), "plan.json")
        assert "this nemotron reads schema 1" in caught.value.what
        assert caught.value.where == "plan.json"


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "null", "{}", '{"schema": 1}', "[" * 100_000, '{"a": NaN}'])
def test_what_is_no_plan(text):
    with pytest.raises(UserError, match="not a saved plan") as caught:
        plan_from_json(text, "plan.json")
    assert caught.value.where == "plan.json"


OTHERS = st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3) | st.sampled_from([[], {}, [{}]])


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=150)
def test_a_damaged_plan_is_refused_with_its_place(saved, data):
    """One value of the plan is something else: it is still a plan, or the file is refused."""
    damaged = json.loads(json.dumps(saved))
    at: Any = damaged
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not at[key] or not isinstance(at[key], (dict, list)) or data.draw(st.booleans()):
            break
        at = at[key]
    if data.draw(st.booleans()):
        at[key] = data.draw(OTHERS)
    else:
        del at[key]
    try:
        plan = plan_from_json(json.dumps(damaged), "plan.json")
    except UserError as error:
        assert error.where == "plan.json"
    else:
        plan_to_json(plan)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="cannot read"):
        load_plan(tmp_path / "gone.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not a text file"):
        load_plan(tmp_path / "binary.json")


def plans(*overrides: str) -> tuple[Any, Any]:
    before = nemo_runspec.plan("nano3/pretrain", config="tiny", profile="my-cluster")
    return before, nemo_runspec.plan("nano3/pretrain", config="tiny", profile="my-cluster", overrides=overrides)


def test_two_plans_of_the_same_things_do_not_differ(project):
    before, after = plans()
    assert before.name != after.name
    assert diff_plans(before, after) == []


def test_what_differs_is_named_with_both_sources(project):
    before, after = plans("train.train_iters=5", "run.env.env_vars.NEW=1")
    found = {d.path: d for d in diff_plans(before, after)}
    changed = found["train.train_iters"]
    assert (changed.kind, changed.after, changed.after_source) == ("changed", 5, "command line")
    assert "tiny.yaml" in changed.before_source
    assert found["run.env.env_vars.NEW"].kind == "added"
    assert {path.split(".")[0] for path in found} == {"train", "run", "env"}


def test_one_more_file_does_not_shift_the_others(project):
    before, _ = plans()
    extra = model.BundleFile("recipes/aaa.py", "/aaa.py", 1)
    after = replace(before, bundle=replace(before.bundle, files=(extra, *before.bundle.files)))
    assert {d.path.split(".")[0] for d in diff_plans(before, after)} == {"bundle"}
    assert len(diff_plans(before, after)) <= 4


def test_a_renamed_plan_differs_in_nothing_else(project):
    before, _ = plans()
    after = rename(before, "other-name-1120-00000000")
    assert before.name not in plan_to_json(after)
    assert diff_plans(before, after) == []


def test_diff_as_a_command(project, nemotron):
    for name, override in (("a", "train.train_iters=5"), ("b", "train.train_iters=6")):
        nemotron(
            "nano3", "pretrain", "-c", "tiny", "--run", "my-cluster", override, "--dry-run", "--out", f"{name}.json"
        ).succeeds()
    out = nemotron("diff", "a.json", "b.json").succeeds().out
    assert "train.train_iters\n  - 5   command line\n  + 6   command line" in out
    rows = nemotron("diff", "a.json", "b.json", "--json").succeeds().json
    assert [row["path"] for row in rows] == ["train.train_iters"]
    assert "No difference but the name." in nemotron("diff", "a.json", "a.json").succeeds().out
    nemotron("diff", "a.json", "gone.json").refuses("no such plan file: gone.json")
    nemotron("diff", "a.json").refuses("no run of nano3/pretrain is recorded yet", "nemotron diff A B")
    nemotron("diff", "a.json", "no-such-job").refuses("no job is recorded yet")
    nemotron("diff", "env.toml", "a.json").refuses("not a saved plan")
