"""What is looked at before a job of any cloud: keys for S3, room, addresses, ways of code."""

from __future__ import annotations

import os
from typing import Any

import pytest
from cloud_plans import plan_of
from labs.s3.lab import S3Lab

from nemo_runspec.backends.cloud.preflight.room import Room, room_check
from nemo_runspec.backends.cloud.preflight.storage import address_checks, storage_checks
from nemo_runspec.backends.cloud.preflight.ways import transport_checks
from nemo_runspec.check import Check

ENV = {"container_image": "i", "nemo_run_dir": "/mnt/x"}


@pytest.fixture
def keys(s3_lab: S3Lab, monkeypatch: pytest.MonkeyPatch) -> S3Lab:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3_lab.environment().items():
        monkeypatch.setenv(name, value)
    return s3_lab


def looked_at(*, fast: bool = False, **env: Any) -> list[Check]:
    return list(storage_checks(plan_of("lepton", {**ENV, **env}).target, fast=fast))


def test_what_may_be_read_and_written(keys: S3Lab):
    keys.put("s3://bucket/train.json", b"12345")
    keys.put("s3://bucket/set/part-0", b"1")
    inputs = {"/data/train.json": "s3://bucket/train.json", "/data/set": "s3://bucket/set/"}
    found = looked_at(inputs=inputs, outputs=["/out"], output_url="s3://bucket/results", code_url="s3://bucket/code")
    assert [check.verdict for check in found] == ["ok"] * 4, found
    assert "5 bytes" in found[0].seen
    assert keys.urls() == ["s3://bucket/set/part-0", "s3://bucket/train.json"]  # nothing was left there
    assert looked_at() == []


def test_what_may_not(keys: S3Lab, monkeypatch: pytest.MonkeyPatch):
    (missing,) = looked_at(inputs={"/data/x": "s3://bucket/none"})
    assert (missing.verdict, missing.seen) == ("failed", "s3://bucket/none cannot be read (HTTP 404)")
    (bucket,) = looked_at(outputs=["/out"], output_url="s3://no-such-bucket/results")
    assert (bucket.verdict, "cannot be written" in bucket.seen) == ("failed", True)
    monkeypatch.setenv("SECRET_KEY", "another")
    (denied,) = looked_at(inputs={"/data/x": "s3://bucket/none"})
    assert denied.verdict == "failed"
    assert "another" not in f"{denied}"
    # What the platform keeps may be other keys than those found here.
    kept = {"ACCESS_KEY": "s3-access", "SECRET_KEY": "s3-secret"}
    (other,) = looked_at(inputs={"/data/x": "s3://bucket/none"}, secret_vars=kept)
    assert other.verdict == "warning"


def test_a_place_for_code_that_may_not_be_needed(keys: S3Lab):
    """Code travels otherwise where it is small: only transport s3 cannot do without."""
    place = {"code_url": "s3://no-such-bucket/code"}
    assert [check.verdict for check in looked_at(**place)] == ["warning"]
    assert looked_at(fast=True, **place) == []
    assert [check.verdict for check in looked_at(fast=True, code_transport="s3", **place)] == ["failed"]


def test_a_service_that_does_not_answer_may_be_reached_by_the_pods(keys: S3Lab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nemo_runspec.backends.cloud.preflight.storage._PATIENCE", 0.5)
    keys.fault("*", "500", times=None)
    (check,) = looked_at(inputs={"/data/x": "s3://bucket/x"})
    assert (check.verdict, "not known from here" in check.seen) == ("warning", True)


def test_without_keys(keys: S3Lab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ACCESS_KEY")
    (check,) = looked_at(inputs={"/data/x": "s3://bucket/x"})
    assert (check.verdict, check.remedy) == ("failed", "export ACCESS_KEY=… SECRET_KEY=…")
    (kept,) = looked_at(inputs={"/data/x": "s3://bucket/x"}, secret_vars={"ACCESS_KEY": "a", "SECRET_KEY": "b"})
    assert kept.verdict == "skipped"


def test_amazons_names(keys: S3Lab, monkeypatch: pytest.MonkeyPatch):
    keys.put("s3://bucket/x", b"1")
    for name, other in (("ACCESS_KEY", "AWS_ACCESS_KEY_ID"), ("SECRET_KEY", "AWS_SECRET_ACCESS_KEY")):
        monkeypatch.setenv(other, os.environ[name])
        monkeypatch.delenv(name)
    data = {"inputs": {"/data/x": "s3://bucket/x"}}
    assert [check.verdict for check in looked_at(**data)] == ["ok"]
    monkeypatch.setenv("ACCESS_KEY", "half of another pair")
    assert [check.verdict for check in looked_at(**data)] == ["failed"], "a submission finds no SECRET_KEY either"


def test_ways_of_code(keys: S3Lab, tmp_path: Any):
    (check,) = transport_checks(plan_of("lepton", {**ENV, "code_url": "s3://bucket/code"}).target)
    assert check.seen == "by size: inline, s3, git; not volume (no run_dir_here)"
    (volume,) = transport_checks(
        plan_of("lepton", {**ENV, "run_dir_here": str(tmp_path), "code_transport": "volume"}).target
    )
    assert (volume.verdict, volume.seen) == ("ok", "volume")
    (gone,) = transport_checks(plan_of("lepton", {**ENV, "run_dir_here": "/none", "code_transport": "volume"}).target)
    assert gone.verdict == "failed"


@pytest.mark.parametrize(
    ("rooms", "nodes", "gpus", "verdict"),
    [
        ([Room(8, 8), Room(8, 8)], 2, 8, "ok"),
        ([Room(8, 8), Room(8, 4)], 2, 8, "warning"),
        ([Room(8, 8), Room(8, 4)], 3, 4, "ok"),
        ([Room(8, 8), Room(0, 0)], 2, 8, "failed"),
        ([Room(4, 4)] * 9, 1, 8, "failed"),
        ([], 4, 0, "ok"),
    ],
)
def test_room(rooms: list[Room], nodes: int, gpus: int, verdict: str):
    assert room_check("here", rooms, nodes, gpus).verdict == verdict


def test_addresses():
    config = {"a": {"b": ["x", "lepton://bucket/x"]}, "c": "s3://bucket/y", "d": 3, "e": "see dgxcloud://z/1 there"}
    assert [(check.verdict, check.seen, check.remedy) for check in address_checks(config)] == [
        ("failed", "a.b[1]: lepton://bucket/x is no address of data", "write s3://bucket/x"),
        ("failed", "e: dgxcloud://z/1 is no address of data", "write s3://z/1"),
    ]
