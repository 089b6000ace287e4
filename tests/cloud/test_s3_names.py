"""Which keys for S3 an environment has: here, in a plan and in a pod by the same rule."""

from __future__ import annotations

import json

import pytest
from cloud_plans import plan_of

from nemo_runspec.backends.cloud.pod.program import node_program, pod_files
from nemo_runspec.backends.cloud.storage.s3_signing import Keys, keys_of
from nemo_runspec.s3_names import lacking

OWN = {"ACCESS_KEY": "a", "SECRET_KEY": "s"}
AMAZONS = {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "S"}
TOKEN = {"AWS_SESSION_TOKEN": "T"}


@pytest.mark.parametrize(
    ("environment", "keys"),
    [
        ({}, None),
        (OWN, Keys("a", "s")),
        (AMAZONS, Keys("A", "S")),
        ({**AMAZONS, **TOKEN}, Keys("A", "S", "T")),
        ({**OWN, **AMAZONS}, Keys("a", "s")),
        ({**OWN, **AMAZONS, **TOKEN}, Keys("a", "s")),  # it is the token of the other keys
        ({**OWN, **TOKEN}, Keys("a", "s", "T")),  # as a pod has temporary keys
        ({**OWN, **TOKEN, "AWS_ACCESS_KEY_ID": "a"}, Keys("a", "s", "T")),
        ({**AMAZONS, "ACCESS_KEY": " ", "SECRET_KEY": ""}, Keys("A", "S")),
        ({**AMAZONS, "ACCESS_KEY": "a"}, None),  # half of one pair, half of another: neither
    ],
)
def test_one_pair_counts_and_its_own_token(environment, keys):
    assert keys_of(environment) == keys


def test_what_a_job_lacks():
    assert lacking([]) == ["ACCESS_KEY", "SECRET_KEY"]
    assert lacking(["AWS_ACCESS_KEY_ID", "HF_TOKEN"]) == ["AWS_SECRET_ACCESS_KEY"]
    assert lacking(list(AMAZONS)) == lacking(list(OWN)) == []


def test_where_the_service_is_is_decided_with_the_plan(monkeypatch):
    """A saved plan makes the same files on another machine."""
    env = {"container_image": "i", "nemo_run_dir": "/mnt/x", "inputs": {"/data/x": "s3://bucket/x"}}
    monkeypatch.setenv("S3_ENDPOINT_URL", "https://s3.here")
    monkeypatch.delenv("CLOUD_REGION", raising=False)
    here, told = plan_of("lepton", env), plan_of("lepton", {**env, "env_vars": {"CLOUD_REGION": "job"}})
    monkeypatch.delenv("S3_ENDPOINT_URL")
    nowhere = plan_of("lepton", env)
    monkeypatch.setenv("S3_ENDPOINT_URL", "https://s3.elsewhere")
    monkeypatch.setenv("CLOUD_REGION", "elsewhere")
    assert [service(plan) for plan in (here, told, nowhere)] == [
        ("https://s3.here", "us-east-1"),
        ("https://s3.here", "job"),
        ("", "us-east-1"),
    ]


def service(plan):
    (data,) = (json.loads(file.text) for file in pod_files(plan, node_program("lepton")) if file.name == "data.json")
    return data["endpoint"], data["region"]
