"""Which of several keys for one fact decides: of `partition`, `run_partition`, `batch_partition`, `build_partition`."""

from __future__ import annotations

import pytest

from nemo_runspec.plans.meant_keys import deciding_key, keys_of, meant_keys


@pytest.mark.parametrize(
    ("mode", "kind", "keys"),
    [
        ("run", None, ["run_time", "time"]),
        ("batch", "train", ["batch_time", "time"]),
        ("run", "build", ["build_time", "run_time", "time"]),
    ],
)
def test_the_keys_that_are_meant_for_a_job(mode, kind, keys):
    assert list(meant_keys("time", mode, kind)) == keys
    assert set(keys) <= set(keys_of("time"))


@pytest.mark.parametrize(
    ("env", "given", "key"),
    [
        ({}, (), None),
        ({"time": "1h"}, (), "time"),
        ({"time": "1h", "run_time": "2h"}, (), "run_time"),
        ({"time": "1h", "run_time": ""}, (), "time"),
        ({"time": "1h", "run_time": "2h"}, ("time",), "time"),
        ({"time": None, "run_time": "2h"}, ("time",), "run_time"),
    ],
)
def test_the_first_that_is_set_decides_and_the_command_line_before_all(env, given, key):
    assert deciding_key(meant_keys("time", "run", None), env, given) == key
