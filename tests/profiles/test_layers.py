"""How layers are joined, held against a model that shares no code with it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.profiles.layers import extend, flatten, overlay

KEYS = st.sampled_from("abc")
LEAVES = st.one_of(st.integers(0, 3), st.sampled_from(["x", ""]), st.lists(st.integers(0, 2), max_size=2), st.none())
TABLES = st.recursive(
    st.dictionaries(KEYS, LEAVES, max_size=3), lambda below: st.dictionaries(KEYS, LEAVES | below, max_size=3)
)
JOINED = st.fixed_dictionaries(
    {},
    optional={
        "env_vars": st.dictionaries(KEYS, st.integers(0, 2), max_size=3),
        "mounts": st.lists(st.sampled_from(["/a:/a", "/b:/b", "/c:/c"]), max_size=3, unique=True),
        "nodes": st.integers(1, 3),
        "custom_spec": st.dictionaries(KEYS, st.integers(0, 2), max_size=2),
        "time": st.just("1"),
    },
)


def model_leaves(chain: list[dict[str, Any]]) -> dict[tuple[str, ...], Any]:
    """The merged leaves, found by asking each path which of the tables, weakest first, has the last word on it."""

    def lookup(tables: list[Any]) -> Any:
        kept: list[Any] = []
        for value in tables:
            kept = [*kept, value] if isinstance(value, dict) and kept and isinstance(kept[-1], dict) else [value]
        if not isinstance(kept[-1], dict):
            return kept[-1]
        return {k: lookup([t[k] for t in kept if k in t]) for k in {k for t in kept for k in t}}

    def leaves(value: Any, path: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
        if not isinstance(value, dict) or not value:
            return {path: value}
        return {p: v for key, below in value.items() for p, v in leaves(below, (*path, key)).items()}

    merged = lookup(chain)
    return leaves(merged, ()) if merged else {}


@given(st.lists(TABLES, min_size=1, max_size=4))
def test_extends_against_the_model(chain):
    before = deepcopy(chain)
    merged: dict[str, Any] = {}
    for table in chain:
        merged = extend(merged, table)
    found = {tuple(path.split(".")): value for path, value in flatten(merged).items()}
    assert found == model_leaves(chain)
    assert chain == before


@given(TABLES)
def test_nothing_and_itself_change_nothing(table):
    assert extend(table, {}) == extend({}, table) == extend(table, table) == table


@given(JOINED, JOINED)
def test_the_profile_over_the_yaml(yaml, profile):
    before = deepcopy((yaml, profile))
    merged = overlay(yaml, profile)
    assert (yaml, profile) == before
    assert set(merged) == set(yaml) | set(profile)
    for key in set(merged) - {"env_vars", "mounts"}:
        assert merged[key] == profile.get(key, yaml.get(key))
    if "env_vars" in merged:
        lower, upper = yaml.get("env_vars", {}), profile.get("env_vars", {})
        assert merged["env_vars"] == {k: upper.get(k, lower.get(k)) for k in {*lower, *upper}}
    if "mounts" in merged:
        both = [*yaml.get("mounts", []), *profile.get("mounts", [])]
        assert merged["mounts"] == sorted(set(both), key=both.index)
