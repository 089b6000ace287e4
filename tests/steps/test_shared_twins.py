"""What stands twice, in `nano3` and `nemo_steps`, as shared code travels with its family alone: one behaviour."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from .conftest import STEPS

sys.path.insert(0, str(STEPS.parent / "nano3" / "_shared"))

import nano3.bridge  # isort: skip
import nemo_steps.bridge  # isort: skip

Override = Callable[[Any, str, object, str], None]

KEYS = st.sampled_from(["lr", "lr_warmup", "model", "data", "tokens", "tokenizer"])
SCALARS = st.one_of(st.none(), st.integers(0, 9), st.sampled_from(["a", "b"]))
CONTAINERS = st.recursive(
    st.one_of(SCALARS, st.dictionaries(KEYS, SCALARS, max_size=2)),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3).map(lambda entries: SimpleNamespace(**entries)),
    max_leaves=8,
)
VALUES = st.recursive(SCALARS, lambda inner: st.dictionaries(KEYS, inner, min_size=1, max_size=2), max_leaves=6)


def after(override: Override, parent: Any, key: str, value: object) -> tuple[Any, str]:
    """What has become of a copy, and what was said of a value that has no place in it."""
    changed = copy.deepcopy(parent)
    try:
        override(changed, key, copy.deepcopy(value), key)
    except ValueError as error:
        return changed, str(error)
    return changed, ""


@given(
    parent=st.dictionaries(KEYS, CONTAINERS, max_size=4).map(lambda entries: SimpleNamespace(**entries)),
    key=KEYS,
    value=VALUES,
)
def test_a_configuration_is_changed_in_the_same_way(parent, key, value):
    ours = after(nemo_steps.bridge.override, parent, key, value)
    assert ours == after(nano3.bridge.override, parent, key, value)
    if not ours[1] and not isinstance(value, dict):
        assert vars(ours[0])[key] == value


def test_a_recipe_has_one_earlier_name():
    assert nano3.bridge.EARLIER.items() <= nemo_steps.bridge.EARLIER.items()


def test_what_has_no_place_is_said_in_the_same_words():
    parent = SimpleNamespace(optimizer=SimpleNamespace(lr=1, beta=2), recompute=None)
    for key, value, words in (
        ("optimiser", {"lr": 2}, "unknown key 'optimiser'; did you mean 'optimizer'?"),
        ("optimizer", {"momentum": 1}, "unknown key 'optimizer.momentum'; known keys: beta, lr"),
        ("optimizer", {"lr": {"max": 2}}, "unknown key 'optimizer.lr.max'"),
        ("recompute", {"layers": 2}, "'recompute' is not set by the recipe, so nothing in it can be changed"),
    ):
        for override in (nano3.bridge.override, nemo_steps.bridge.override):
            assert after(override, parent, key, value)[1] == words
