"""What another process raises is raised here, whole: its words, its code, its key, and whether later may help."""

from __future__ import annotations

import pytest

from nemo_runspec.errors import Code, UserError
from nemo_runspec.supervise.detach import detach
from nemo_runspec.supervise.spawn import start_in_new_process
from nemo_runspec.transport.base import Unreachable

ERRORS = {
    "plain": UserError("what"),
    "whole": UserError("what", where="env.toml:3", remedy="mend", code=Code.LOGIN, key="host"),
    "later": Unreachable("what", remedy="try again later"),
}


def raising(name: str) -> None:
    raise ERRORS[name]


def fail(name: str) -> str:
    raise ERRORS[name]


@pytest.mark.parametrize("name", ERRORS)
def test_a_detached_process(name: str):
    with pytest.raises(UserError) as raised:
        detach(lambda ready: raising(name))
    assert raised.value.to_dict() == ERRORS[name].to_dict()


@pytest.mark.parametrize("name", ERRORS)
def test_a_new_process(name: str):
    with pytest.raises(UserError) as raised:
        start_in_new_process(fail, name, say=lambda line: None)
    assert raised.value.to_dict() == ERRORS[name].to_dict()
