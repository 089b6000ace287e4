"""How a node finds out which it is, on executors of others too."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from job_scripts import plan_for
from support import Project, call, enter

from nemo_runspec import backends
from nemo_runspec.backends.base import Backend
from nemo_runspec.errors import UserError
from nemo_runspec.plans.target import Target
from nemo_runspec.profiles.common import adopt
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.node_identity import NodeIdentity
from nemo_runspec.script.render import render_job_script


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A backend of somebody else's."""
    module = ModuleType("other_backend")
    module.BACKEND = Backend("other", True, (), "", "")
    monkeypatch.setitem(sys.modules, "other_backend", module)
    monkeypatch.setitem(backends.BUILTIN, "other", "other_backend")
    backends.get_backend.cache_clear()
    yield module
    backends.get_backend.cache_clear()


@pytest.mark.parametrize("executor", ["other", "gone"])
def test_several_nodes_that_nobody_tells_apart(other: ModuleType, tmp_path: Path, executor: str):
    """Each would be rank 0 of 1, and end well."""
    plan = plan_for(tmp_path, executor=executor, nodes=2)
    with pytest.raises(UserError, match=f"executor '{executor}' does not say how a node finds out which of the 2"):
        render_job_script(plan, JobLayout(str(tmp_path)))
    assert render_job_script(plan_for(tmp_path, executor=executor), JobLayout(str(tmp_path)))


def test_it_is_said_before_a_submission_too(other: ModuleType, project: Project, monkeypatch: pytest.MonkeyPatch):
    """By `env check`, with its line, the doctor and a dry run: in the same words."""
    other.make_target = lambda request: Target()
    target = "nemo_runspec.plans.target:Target"
    render = "nemo_runspec.backends.local.render:render"
    other.BACKEND = Backend("other", True, (adopt("nodes"),), "other_backend:make_target", target, render=render)
    enter(project, monkeypatch)
    project.write("env.toml", '[o]\nexecutor = "other"\nnodes = 2\n')
    project.write("train.py", "")
    why = "executor 'other' does not say how a node finds out which of the 2 it is"
    (error,) = call("env", "check", "--json").json["errors"]
    assert (error["message"], error["place"].split()[0]) == (why, "env.toml:3")
    (check,) = [each for each in call("doctor", "o", "--json").json["checks"] if each["verdict"] == "failed"]
    assert check["seen"] == f"{why} (env.toml:3 [o])"
    call("run", "./train.py", "--run", "o", "--dry-run").refuses(why)
    project.write("env.toml", '[o]\nexecutor = "other"\n')
    assert call("env", "check", "--json").json["errors"] == []


def test_the_identity_that_a_backend_declares(other: ModuleType, tmp_path: Path):
    other.IDENTITY = NodeIdentity(node="${THEIR_RANK}", nodes="${THEIR_COUNT}")
    other.BACKEND = replace(other.BACKEND, node_identity="other_backend:IDENTITY")
    text = render_job_script(plan_for(tmp_path, executor="other", nodes=2), JobLayout(str(tmp_path)))
    assert "${THEIR_RANK}" in text
    assert "${THEIR_COUNT}" in text
