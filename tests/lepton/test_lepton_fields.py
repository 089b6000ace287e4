"""What a Lepton profile may say: refused where Lepton would refuse it, before it is asked."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.lepton.fields import mounting_point
from nemo_runspec.backends.lepton.payload import make_spec
from nemo_runspec.errors import UserError
from nemo_runspec.profiles.fieldset import fields_of

TOKEN = "hf_" + "s3cr3t" * 6
MOUNT = {"path": "/data", "mount_path": "/mnt/data", "from": "node-nfs:v"}


def target_of(name: str = "train-1121-abcd", **env: Any) -> Any:
    fields = fields_of("lepton").fields.values()
    merged = {field.name: deepcopy(field.default) for field in fields} | {"nemo_run_dir": "/mnt/data/run", **env}
    return get_backend("lepton").make_target(TargetRequest(name, "run", "", "direct", merged))


@pytest.mark.parametrize(
    ("env", "wrong"),
    [
        ({"mounts": [{**MOUNT, "mount_path": "/opt/"}]}, r"^mounts\[0\]: mount_path /opt is a place"),
        ({"mounts": [{**MOUNT, "mount_path": "/usr/local"}]}, r"^mounts\[0\]: mount_path /usr/local is a place"),
        ({"mounts": [{**MOUNT, "mount_path": "/proc/self"}]}, r"^mounts\[0\]: mount_path /proc/self is a place"),
        ({"mounts": [{**MOUNT, "from": "lustre"}]}, r'^mounts\[0\]: from = "lustre" is neither'),
        ({"mounts": [{**MOUNT, "path": "lepton://b/x"}]}, r"(?s)^mounts\[0\]: path 'lepton://b/x'.*s3://b/x"),
        ({"mounts": [{"path": "x", "mount_path": "/a"}]}, r'path: \{ path = "x", mount_path = "/a" \}'),
        ({"mounts": [MOUNT, {**MOUNT, "mount_path": "/mnt/data/"}]}, "^mounts: two of them are at /mnt/data"),
        ({"ttl": "5m"}, "^ttl: 5m is too short"),
        ({"ttl": "soon"}, "^ttl: 'soon' is no length of time"),
        ({"ttl": "600"}, "write it with its unit, such as 3d"),
        ({"queue_priority": "urgent"}, "^queue_priority: 'urgent'"),
        ({"secret_vars": {"LEPTON_JOB_NAME": "x"}}, "^secret_vars: 'LEPTON_JOB_NAME'"),
        ({"secret_vars": {"TOKEN": "no such name"}}, "^secret_vars: TOKEN names no secret"),
        (
            {"custom_spec": {"envs": [{"name": "LEPTON_JOB_NAME", "value": "x"}]}},
            "^custom_spec.envs: 'LEPTON_JOB_NAME'",
        ),
        (
            {"custom_spec": {"envs": [{"name": "HF_TOKEN", "value": TOKEN}]}},
            "^custom_spec.envs: HF_TOKEN holds a secret",
        ),
        ({"name": "Train"}, "^name: Lepton takes no job named 'Train'"),
        ({"queue_timeout": "soon"}, "^queue_timeout: 'soon'"),
        ({"stall_timeout": "0s"}, "^stall_timeout is no length of time: '0s'"),
        ({"output_url": "lepton://b/x"}, "^output_url: 'lepton://b/x' is no S3 path"),
    ],
)
def test_what_lepton_would_refuse(env, wrong):
    with pytest.raises(UserError, match=wrong) as caught:
        target_of(**env)
    assert caught.value.remedy
    assert TOKEN not in str(caught.value)


def test_below_a_reserved_place_may_be_mounted():
    assert target_of(mounts=[{**MOUNT, "mount_path": "/opt/data"}]).mounts[0]["mount_path"] == "/opt/data"


@pytest.mark.parametrize(
    ("folder", "place"),
    [
        ("/nemo_run", "/nemo_run"), ("/mnt/lustre/me/run", "/mnt/lustre"), ("/data/a/b/", "/data/a/b"), ("/mnt", ""),
        ("/opt", ""), ("/proc/x", ""), ("", ""), ("relative", ""),
    ],
)  # fmt: skip
def test_where_a_volume_is_mounted_when_the_profile_says_nothing(folder, place):
    assert mounting_point(folder) == place


@pytest.mark.parametrize(
    ("env", "shared", "said"),
    [
        ({"mounts": [MOUNT]}, True, []),
        ({"mounts": [MOUNT], "nemo_run_dir": "/opt"}, False, ["nemo_run_dir '/opt' is on none of mounts: what"]),
        (
            {"mounts": [MOUNT], "nemo_run_dir": "/data"},
            True,
            ["nemo_run_dir '/data' is on none of mounts: the node group's volume will be mounted at /data"],
        ),
        ({}, True, ["nemo_run_dir '/mnt/data/run' is on none of mounts: the node group's volume"]),
        ({"mounts": [MOUNT], "queue_priority": "mid-4000"}, True, ["queue_priority: Lepton takes this only"]),
        (
            {"mounts": [MOUNT], "ray_version": "2.49.2", "head_resource_shape": "cpu.small"},
            True,
            ["ray_version, head_resource_shape: only for scripts that use NeMo-Run themselves"],
        ),
    ],
)
def test_what_is_odd_is_said(env, shared, said):
    target = target_of(**env)
    assert target.shared is shared
    assert len(target.warnings) == len(said)
    for line, begin in zip(target.warnings, said, strict=True):
        assert line.startswith(begin)


def test_what_a_custom_spec_replaces_is_said_key_by_key():
    custom = {
        "ttl_seconds_after_finished": 900,
        "completions": 1,
        "log": {"save_termination_logs": False, "enable_collection": True},
        "envs": [{"name": "MINE", "value": "1"}],
        "user_security_context": {"privileged": True},
    }
    replaced = [line.split()[2] for line in target_of(mounts=[MOUNT], custom_spec=custom).warnings]
    assert replaced == ["ttl_seconds_after_finished", "log.save_termination_logs"]


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(UserError, match="3 problems"):
        target_of(ttl="1s", queue_priority="x", mounts=[{**MOUNT, "mount_path": "/"}])


def test_where_outputs_go_by_default(monkeypatch):
    """To the bucket that the environment names, or the profile's own variables; nowhere where there are none."""
    monkeypatch.setenv("S3_BUCKET_NAME", "team")
    assert target_of(mounts=[MOUNT], outputs=["/out"]).output_url == "s3://team/results"
    assert target_of(mounts=[MOUNT], outputs=["/out"], output_url="s3://mine/x").output_url == "s3://mine/x"
    assert target_of(mounts=[MOUNT], outputs=["/out"], env_vars={"S3_BUCKET_NAME": "b"}).output_url == "s3://b/results"
    assert target_of(mounts=[MOUNT]).output_url == ""
    told = target_of(mounts=[MOUNT], cloud_metadata=True, inputs={"/in": "s3://data/x"})
    assert told.cloud_metadata == ("data", "team")
    assert [mount.target for mount in told.storage("").mounts] == ["/mnt/data"]
    monkeypatch.delenv("S3_BUCKET_NAME")
    with pytest.raises(UserError, match=r"^outputs: output_url does not say"):
        target_of(mounts=[MOUNT], outputs=["/out"])
    with pytest.raises(UserError, match=r"^cloud_metadata: no bucket is named"):
        target_of(mounts=[MOUNT], cloud_metadata=True)


def test_mounts_of_a_custom_spec_hold_the_directory_for_jobs_too():
    """They stand beside the volume that is looked for, and where they hold the directory, none is."""
    custom = {"mounts": [{"path": "/", "mount_path": "/mnt/own", "from": "node-nfs:v"}]}
    target = target_of(nemo_run_dir="/mnt/own/run", custom_spec=custom)
    assert (target.shared, target.mounted_at, target.warnings) == (True, "", ())
    target = target_of(nemo_run_dir="/nemo_run", custom_spec=custom)
    assert (target.shared, target.mounted_at) == (True, "/nemo_run")
    spec, replaced = target.merged(make_spec(target, 1, (), ()))
    assert spec["mounts"] == ["MOUNT", *custom["mounts"]] and not replaced


def test_nodes_that_cannot_meet_are_refused():
    unfilled = target_of(nemo_run_dir="/opt", mounts=[MOUNT], nodes=2).unfilled
    assert unfilled == ("nemo_run_dir '/opt' is on none of mounts: 2 nodes share no directory",)
    read_only = [{**MOUNT, "mount_options": {"read_only": True}}]
    target = target_of(nemo_run_dir=f"{MOUNT['mount_path']}/run", mounts=read_only, nodes=2)
    why = "is on /mnt/data, which is read-only"
    assert target.unfilled == (f"nemo_run_dir '/mnt/data/run' {why}: 2 nodes share no directory",)
    assert target.mounted_at == ""
