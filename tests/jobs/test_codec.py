"""Records as JSON: what is written is strict, what is read may be of another age."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_records import record

from nemo_runspec.records.codec import from_json, to_dict, to_json
from nemo_runspec.records.process import this_process

OLD = """{"name": "j", "recipe": "r", "config": null, "profile": null, "executor": "local", "mode": "run",
"argv": [], "cwd": "/", "user": "u", "host": "h", "commit": null, "states": [{"state": "planned",
"time": "2025-01-01T00:00:00+00:00"}], "schema": 1}"""

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


@given(
    st.dictionaries(TEXT, st.floats()),
    st.lists(TEXT),
    st.dictionaries(TEXT, st.none() | st.integers() | TEXT),
    st.none() | TEXT,
)
def test_a_record_comes_back_as_it_was(metrics, overrides, package, text):
    made = record(
        "job", metrics=metrics, overrides=tuple(overrides), package=package, group=text, container=text, retry_of=text,
        process=this_process(),
    )  # fmt: skip
    found = from_json(to_json(made))
    assert {k: repr(v) for k, v in found.metrics.items()} == {k: repr(v) for k, v in metrics.items()}
    assert (found.overrides, found.package, found.group) == (made.overrides, made.package, text)
    assert found.process == made.process


def test_a_metric_that_is_no_number_is_valid_json():
    text = to_json(record("job", metrics={"loss": math.nan, "up": math.inf, "down": -math.inf}))
    assert json.loads(text, parse_constant=pytest.fail)["metrics"] == {"loss": "nan", "up": "inf", "down": "-inf"}


def test_a_record_of_the_first_version_has_defaults():
    found = from_json(OLD)
    assert (found.group, found.overrides, dict(found.package), found.container) == (None, (), {}, None)
    assert (found.retry_of, dict(found.metrics)) == (None, {})
    assert from_json(OLD.replace('"schema": 1', '"schema": 0')).name == "j"
    assert from_json(OLD.replace('"schema": 1', '"schema": 1, "later": [1]')) == found


def test_a_record_without_its_directory_has_it_from_its_handle():
    """As this schema was first written; a plug-in's handle may hold anything by that name, and by any other."""
    made = record("job", handle={"name": "job", "job_dir": "/there/jobs/job"}, job_dir="")
    old = {key: value for key, value in to_dict(made).items() if key != "job_dir"}
    assert from_json(json.dumps(old)).job_dir == "/there/jobs/job"
    for strange in ({"name": ["a"], "job_dir": 5}, {"root": "/there"}, {}):
        found = from_json(json.dumps({**old, "handle": strange}))
        assert (found.job_dir, dict(found.handle)) == ("", strange)
    assert from_json(to_json(record("job", job_dir="/here", handle={"name": {"is": 1}}))).job_dir == "/here"


@pytest.mark.parametrize(
    "values",
    [
        {"job_dir": None}, {"job_dir": 5},
        {"exit_code": "3"}, {"exit_code": True}, {"elapsed": "x"}, {"states": ()}, {"argv": ["a"]}, {"argv": (b"a",)},
        {"outputs": {"a": 1}}, {"elapsed": math.nan}, {"group": 3}, {"metrics": {"a": "1"}}, {"process": (1, "", "")},
    ],
)  # fmt: skip
def test_what_a_reader_would_refuse_is_not_written(values):
    with pytest.raises(ValueError):
        to_json(record("job", **values) if "states" not in values else _without_states())


def _without_states():
    import dataclasses

    return dataclasses.replace(record("job"), states=())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("\0" * 500, "it is empty"),
        (OLD[:200], "it is cut off or damaged"),
        ("hello", "something else than a job record"),
        ("[1, 2]", "something else than a job record"),
        ("{}", "something else than a job record"),
        (OLD.replace('"schema": 1', '"schema": true'), "something else than a job record"),
        (OLD.replace('"schema": 1', '"schema": 7'), "a later version of nemotron wrote it"),
        (OLD.replace('"recipe": "r", ', ""), "it lacks 'recipe'"),
        (OLD.replace('"planned"', '"plannned"'), "a state there is not: 'plannned'"),
        (OLD.replace('"argv": []', '"argv": 5'), "not what it should be"),
        (OLD.replace("[{", "[5, {"), "not what it should be"),
        (OLD.replace('"commit": null', '"commit": null, "metrics": {"a": "b"}'), "not what it should be"),
    ],
)
def test_what_cannot_be_read_is_said_plainly(text, said):
    with pytest.raises(ValueError, match=said) as error:
        from_json(text)
    for word in ("Error", "line 1", "char", "Expecting", "column", "object", "float", "__init__"):
        assert word not in str(error.value)


def test_a_plain_form_holds_nothing_but_plain_values():
    json.dumps(to_dict(record("job", process=this_process(), launcher=this_process())), allow_nan=False)
