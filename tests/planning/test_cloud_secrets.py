"""Secrets that a platform keeps, and those that data on S3 needs."""

from __future__ import annotations

import pytest
from support import ENV_TOML

import nemo_runspec
from nemo_runspec.errors import UserError
from nemo_runspec.secrets import resolve

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


def test_keys_by_amazons_names(plan, monkeypatch):
    """What doctor uses for a job is what the job gets: the pair, and the token where they are temporary."""
    for name in ("ACCESS_KEY", "SECRET_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "s3cr3t-Value-1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t-Value-2")
    assert (carried(made := plan(DATA)), made.unfilled) == ({"ACCESS_KEY", "SECRET_KEY"}, ())
    assert {ref.detail for ref in made.secrets} >= {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    assert [resolve(ref) for ref in made.secrets if ref.name == "SECRET_KEY"] == ["s3cr3t-Value-2"]
    monkeypatch.setenv("AWS_SESSION_TOKEN", "s3cr3t-Value-3")
    assert (carried(made := plan(DATA)), made.unfilled) == ({"ACCESS_KEY", "SECRET_KEY", "AWS_SESSION_TOKEN"}, ())
    assert carried(plan("")) == set()
    kept = '[lepton.secret_vars]\nACCESS_KEY = "a"\nSECRET_KEY = "b"\n'
    assert carried(plan(DATA + kept)) == set(), "the token of other keys"
    by_name = 'secrets = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]\n'
    assert carried(plan(DATA + by_name)) == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}


def test_keys_of_two_pairs_are_not_mixed(plan, monkeypatch):
    for name in ("ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, f"s3cr3t-{name}")
    (line,) = plan(DATA).unfilled
    assert line.split()[1] == "SECRET_KEY"
    monkeypatch.setenv("SECRET_KEY", "s3cr3t-SECRET_KEY")
    assert carried(plan(DATA)) == {"ACCESS_KEY", "SECRET_KEY"}, "the token is that of the other keys"
    kept = '[lepton.secret_vars]\nAWS_ACCESS_KEY_ID = "a"\n'
    assert carried(plan(DATA + kept)) == {"AWS_SECRET_ACCESS_KEY"}, "the other half has the other half's name"


def carried(made):
    return {ref.name for ref in made.secrets}
