"""A profile's `custom_spec` wins, and what it replaces is named."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_runspec.backends.cloud.custom_spec import merge

LISTS = {"envs": "name"}
SPEC: dict[str, Any] = {
    "image": "i",
    "queue": {"class": "mid", "preempt": True},
    "envs": [{"name": "A", "value": "1"}, "UPLOAD", {"name": "B", "value": "2"}],
    "hosts": [{"name": "h"}],
}


@pytest.mark.parametrize(
    ("custom", "changed", "replaced"),
    [
        ({"image": "i"}, {}, ()),
        ({"image": "j"}, {"image": "j"}, ("image",)),
        ({"more": [1]}, {"more": [1]}, ()),
        ({"queue": {"class": "high"}}, {"queue": {"class": "high", "preempt": True}}, ("queue.class",)),
        ({"queue": "none"}, {"queue": "none"}, ("queue",)),
        ({"envs": [{"name": "C"}, {"name": "A", "value": "3"}]},
         {"envs": [{"name": "A", "value": "3"}, "UPLOAD", {"name": "B", "value": "2"}, {"name": "C"}]}, ("envs.A",)),
        ({"envs": [{"name": "A", "value": "1"}]}, {}, ()),
        ({"envs": ["no table"]}, {"envs": ["no table"]}, ("envs",)),
        ({"hosts": [{"name": "k"}]}, {"hosts": [{"name": "k"}]}, ("hosts",)),
    ],
)  # fmt: skip
def test_a_custom_spec_is_merged_and_what_it_replaces_is_named(custom, changed, replaced):
    before = repr(SPEC)
    assert merge(SPEC, custom, LISTS) == ({**SPEC, **changed}, replaced)
    assert repr(SPEC) == before
