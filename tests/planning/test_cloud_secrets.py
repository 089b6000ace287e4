"""Secrets that a platform keeps, and those that data on S3 needs."""

from __future__ import annotations

import pytest
from support import ENV_TOML

import nemo_runspec
from nemo_runspec.errors import UserError

DATA = 'outputs = ["/results"]\noutput_url = "s3://bucket/results"\n'
KEPT = '[lepton.secret_vars]\nHF_TOKEN = "team-hf"\n'


@pytest.fixture
def plan(project):
    project.recipe("mine/train", default="value: 1\n")

    def make(text, profile="lepton", *overrides):
        project.write("env.toml", ENV_TOML + text)
        return nemo_runspec.plan("mine/train", profile=profile, overrides=overrides)

    return make


def test_what_the_platform_keeps_is_not_looked_for(plan, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "s3cr3t-Value")
    assert [secret.name for secret in plan("").secrets] == ["HF_TOKEN"]
    made = plan('secrets = ["HF_TOKEN"]\n' + KEPT)
    assert (made.secrets, made.unfilled) == ((), ())
    assert made.run["env"]["secret_vars"] == {"HF_TOKEN": "team-hf"}


def test_a_variable_is_set_once(plan):
    with pytest.raises(UserError, match="secret_vars: the platform is to set HF_TOKEN, and so does"):
        plan(KEPT, "lepton", "+run.env.env_vars.HF_TOKEN=abc")
    nemo_runspec.plan("mine/train", profile="my-cluster", overrides=["+run.env.env_vars.HF_TOKEN=abc"])


def test_data_needs_keys(plan, monkeypatch):
    made = plan(DATA)
    assert {line.split()[1] for line in made.unfilled} == {"ACCESS_KEY", "SECRET_KEY"}
    monkeypatch.setenv("ACCESS_KEY", "s3cr3t-Value-1")
    monkeypatch.setenv("SECRET_KEY", "s3cr3t-Value-2")
    made = plan(DATA)
    assert {secret.name for secret in made.secrets} >= {"ACCESS_KEY", "SECRET_KEY"}
    assert made.unfilled == ()


@pytest.mark.parametrize("names", [("ACCESS_KEY", "SECRET_KEY"), ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")])
def test_keys_that_the_platform_keeps(plan, names):
    made = plan(DATA + "[lepton.secret_vars]\n" + "".join(f'{name} = "bucket-{name}"\n' for name in names))
    assert (made.secrets, made.unfilled) == ((), ())
