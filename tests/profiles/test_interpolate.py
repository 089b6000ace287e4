"""`${oc.env:…}` in profiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from nemo_runspec.profiles.interpolate import escape, resolve_value, retype


def resolved(value):
    missing: list[str] = []
    return resolve_value(value, missing.append), missing


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${oc.env:HERE}", "there"),
        ("a ${oc.env:HERE} b", "a there b"),
        ("${oc.env:HERE}/${oc.env:HERE}", "there/there"),
        ("${oc.env: HERE }", "there"),
        ("${oc.env:HERE,other}", "there"),
        ("${oc.env:GONE,other}", "other"),
        ("${oc.env:GONE, other words }", "other words"),
        ("${oc.env:GONE,}", ""),
        ("${oc.env:GONE,''}", ""),
        ('${oc.env:GONE,"a,b"}', "a,b"),
        ("${oc.env:EMPTY,other}", ""),
        ("${oc.env:GONE,${oc.env:HERE}}", "there"),
        ("${oc.env:GONE,${oc.env:ALSO_GONE,last}}", "last"),
        ("${HOME}/x", "${HOME}/x"),
        ("$HERE", "$HERE"),
        ("${run.env.nodes}", "${run.env.nodes}"),
        ("plain", "plain"),
    ],
)
def test_resolution(monkeypatch, text, value):
    monkeypatch.setenv("HERE", "there")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("GONE", raising=False)
    assert resolved(text) == (value, [])


def test_at_any_depth(monkeypatch):
    monkeypatch.setenv("HERE", "there")
    value = {"a": ["${oc.env:HERE}", {"b": "${oc.env:HERE}", "c": 1}], "d": True}
    assert resolved(value)[0] == {"a": ["there", {"b": "there", "c": 1}], "d": True}


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.delenv("GONE", raising=False)
    assert resolved("a ${oc.env:GONE} ${oc.env:ALSO_GONE}")[1] == ["GONE", "ALSO_GONE"]


def test_a_value_that_refers_to_itself_ends(monkeypatch):
    monkeypatch.setenv("LOOP", "${oc.env:LOOP}")
    resolved("${oc.env:LOOP}")


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("4", "positive", 4),
        ("4", "str", "4"),
        ("04", "list[str]", "04"),
        ("1.5", "number", 1.5),
        ("true", "bool", True),
        ("False", "bool", False),
        ("user", "bool|str", "user"),
        ("four", "positive", "four"),
        (4, "str", 4),
    ],
)
def test_text_of_a_variable_becomes_what_its_field_wants(text, kind, value):
    assert retype(text, kind) == value
    assert type(retype(text, kind)) is type(value)


@given(st.text(st.sampled_from("ab${}\\:.,'\"oc.env "), max_size=20))
def test_escaped_text_reaches_the_config_unchanged(text):
    config = OmegaConf.create(escape({"a": text, "b": [text]}))
    assert OmegaConf.to_container(config, resolve=True) == {"a": text, "b": [text]}
