"""Interpolations see the job's own variables, those of one plan only, and nothing stays behind."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

import nemo_runspec
from nemo_runspec.planning.request import plan_request
from nemo_runspec.planning.sweep import build_sweep


@pytest.fixture
def config(project):
    project.write(
        "c.yaml",
        "defaults: [tiny, _self_]\n"
        "run:\n  env:\n    job_dir: /tmp/${oc.env:K,unset}\n"
        "where: ${oc.env:NEMO_RUN_DIR}\ncache: ${oc.env:HF_HOME}\nk: ${oc.env:K,none}\n",
    )
    return str(project.folder / "c.yaml")


def test_every_plan_of_a_sweep_sees_its_own_variables(config):
    request = plan_request("nano3/pretrain", config=config, overrides=["run.env.env_vars.K=k1,k2"])
    for plan, value in zip(build_sweep(request), ("k1", "k2"), strict=True):
        variables = {variable.name: variable.value for variable in plan.env}
        assert variables["NEMO_RUN_DIR"] == plan.run["env"]["job_dir"] == plan.config["where"] == f"/tmp/{value}"
        assert plan.config["k"] == value
        assert plan.run["output_dir"].startswith(f"/tmp/{value}/")


def test_a_local_run_keeps_the_users_own_cache(config, monkeypatch):
    assert nemo_runspec.plan("nano3/pretrain", config=config).config["cache"] == "/tmp/unset/hf"
    monkeypatch.setenv("HF_HOME", "/mine")
    assert nemo_runspec.plan("nano3/pretrain", config=config).config["cache"] == "/mine"


def test_nothing_stays_behind(config, monkeypatch):
    monkeypatch.setenv("HF_HOME", "/mine")
    nemo_runspec.plan("nano3/pretrain", config=config, overrides=["run.env.env_vars.HF_HOME=/the/jobs"])
    assert OmegaConf.create({"a": "${oc.env:HF_HOME}"}).a == "/mine"
    assert not OmegaConf.has_resolver("art")
