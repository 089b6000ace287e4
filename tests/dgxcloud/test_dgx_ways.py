"""Ways to a job's log that are closed, and the helper that makes a copy on S3: nothing is given up for good."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from labs.pods import needs_mounts
from labs.runai.server import RunaiLab
from labs.s3.fixtures import s3_lab
from labs.s3.lab import S3Lab
from runai_workloads import api_of, handle, workload
from test_dgx_logs import ran

from nemo_runspec.backends.dgxcloud import logs
from nemo_runspec.backends.dgxcloud.client import DgxCloudProvider
from nemo_runspec.backends.dgxcloud.logs import pvc, s3_copy
from nemo_runspec.backends.provider import LogChunk

__all__ = ["s3_lab"]

pytestmark = needs_mounts

NOBODY = 65534
LOG = b"step 1\n"
LIMIT = 16 << 20


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of its own."""
    monkeypatch.setattr(s3_copy, "_PAUSE", 0.1)
    later()


def later() -> None:
    """Another process asks."""
    s3_copy._FAILED.clear()
    s3_copy._TIDIED.clear()


@contextmanager
def somebody_else() -> Iterator[None]:
    """What this process does is done as a user who owns nothing."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def text(pieces: Any) -> str:
    return b"".join(piece.content for piece in pieces).decode()


# A claim whose directories are root's


@pytest.fixture
def closed(runai_lab: RunaiLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A job that has failed, whose directory pods made for root alone where others may come."""
    monkeypatch.setenv("RUNAI_CLIENT_SECRET", runai_lab.client_secret)
    api_of(runai_lab)
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    folder = root / "jobs" / "job-1"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "node-0.log").write_bytes(LOG)
    folder.chmod(0o700)
    made = workload(runai_lab, "job-1", "Failed")
    yield handle(runai_lab, id=made.id, here=str(folder), kube="")
    shutil.rmtree(root)


def test_a_claim_that_may_not_be_read_keeps_nobody_from_how_a_job_ended(closed: dict[str, Any], runai_lab: RunaiLab):
    with somebody_else():
        (seen,) = DgxCloudProvider().status([closed])
        told = text(DgxCloudProvider().read_log(closed, {}, LIMIT))
    assert (seen.state, seen.exit_code) == ("failed", 1)
    assert f"{closed['here']} may not be read by this user" in told
    assert LOG.decode() in text(DgxCloudProvider().read_log(closed, {}, LIMIT))  # root may


@pytest.mark.parametrize("what", ["logs/node-0.log", "logs", "..", "../.."])
def test_whatever_is_closed_on_the_way_is_named(closed: dict[str, Any], what: str):
    folder = Path(closed["here"])
    folder.chmod(0o755)
    assert not pvc.closed(closed)
    place = Path(os.path.normpath(folder / what))
    place.chmod(0o700 if place.is_dir() else 0o600)
    with somebody_else():
        assert pvc.closed(closed) == str(place)
        assert not pvc.seen_from_here(closed)
        assert pvc.last_lines(closed) == b""
        assert pvc.new_chunks(closed, {}, LIMIT) == []


# A job that ended before its files were on the claim

STOPPED = "the job was told to stop (SIGINT) before it had started"
ENDED = f"nemotron-end: node=0 attempt=0 exit_code=130 phase=start received=INT lines=1 reason_code= reason={STOPPED}"


@needs_mounts
def test_its_pod_says_how_and_why(runai_lab: RunaiLab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RUNAI_CLIENT_SECRET", runai_lab.client_secret)
    (runai_lab.claims["data"] / "nemo_run").mkdir(exist_ok=True)
    here = str(runai_lab.claims["data"] / "nemo_run" / "jobs" / "job-1")
    job = {**ran(runai_lab, f'echo "{ENDED}"; exit 130'), "here": here}
    assert pvc.seen_from_here(job)
    (seen,) = DgxCloudProvider().status([job])
    assert (seen.state, seen.exit_code, seen.reason) == ("failed", 130, f"{STOPPED}, exit code 130")


@needs_mounts
def test_beside_its_directory_it_says_why(runai_lab: RunaiLab, monkeypatch: pytest.MonkeyPatch):
    """Where the cluster is not asked."""
    monkeypatch.setenv("RUNAI_CLIENT_SECRET", runai_lab.client_secret)
    jobs = runai_lab.claims["data"] / "nemo_run" / "jobs"
    jobs.mkdir(parents=True)
    (jobs / "job-1.failed.0").write_text(f"{STOPPED}\n")
    job = {**ran(runai_lab, "exit 130"), "here": str(jobs / "job-1"), "kube": ""}
    (seen,) = DgxCloudProvider().status([job])
    assert (seen.state, seen.reason.startswith(STOPPED)) == ("failed", True), seen


# A copy on S3


@pytest.fixture
def job(runai_lab: RunaiLab, s3_lab: S3Lab, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A job that is over, whose log lies on the claim; this machine has the keys."""
    keys(s3_lab, monkeypatch)
    s3_lab.bucket("bucket")
    folder = runai_lab.claims["data"] / "nemo_run" / "jobs" / "job-1" / "logs"
    folder.mkdir(parents=True)
    (folder / "node-0.log").write_bytes(LOG)
    made = workload(runai_lab, "job-1", "Completed")
    return handle(
        runai_lab,
        id=made.id,
        kube="",
        logs_url="s3://bucket/job-1/logs",
        s3={"endpoint": s3_lab.endpoint, "region": s3_lab.region},
        image="lab/any",
        pvcs=[{"claimName": "data", "path": "/data"}],
        project_id=runai_lab.mine.id,
        cluster_id=runai_lab.cluster_id,
    )


def keys(lab: S3Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCESS_KEY", lab.access_key)
    monkeypatch.setenv("SECRET_KEY", lab.secret_key)


def fetched(lab: RunaiLab, job: Mapping[str, Any], offsets: dict[str, int]) -> str:
    """What one command gets; it asks on while there is more."""
    pieces: list[LogChunk] = []
    while True:
        found = logs.new_chunks(api_of(lab, kube=""), job, offsets, LIMIT)
        offsets |= {piece.path: piece.cursor for piece in found}
        pieces += found
        if not any(piece.more for piece in found):
            return text(pieces)


def copy(lab: S3Lab) -> None:
    """The copy, as a helper has put it."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as tar:
        member = tarfile.TarInfo("logs/node-0.log")
        member.size = len(LOG)
        tar.addfile(member, io.BytesIO(LOG))
    lab.put("s3://bucket/job-1/logs-0.tar.gz", body.getvalue())


def test_keys_that_come_later_open_the_log(
    runai_lab: RunaiLab, s3_lab: S3Lab, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    offsets: dict[str, int] = {}
    monkeypatch.delenv("ACCESS_KEY")
    assert fetched(runai_lab, job, offsets).count("with ACCESS_KEY and SECRET_KEY") == 1
    assert fetched(runai_lab, job, offsets) == ""
    keys(s3_lab, monkeypatch)
    told = fetched(runai_lab, job, offsets)
    assert "helper workload" in told
    assert told.endswith(LOG.decode())
    assert runai_lab.workload("job-1-logs").deleted


def test_a_helper_that_failed_is_tried_again_by_the_next_command_only(runai_lab: RunaiLab, job: dict[str, Any]):
    runai_lab.scenario("job-1-logs", "quickfail", script="exit 1")
    offsets: dict[str, int] = {}
    assert "the helper workload job-1-logs failed" in fetched(runai_lab, job, offsets)
    assert fetched(runai_lab, job, offsets) == ""
    assert len(runai_lab.calls_of("POST /workloads/trainings")) == 1
    later()
    assert fetched(runai_lab, job, offsets) == LOG.decode()


def test_a_helper_does_not_outlive_the_one_who_wants_the_log(runai_lab: RunaiLab, s3_lab: S3Lab, job: dict[str, Any]):
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        s3_copy._run_helper(api_of(runai_lab), job, f"{s3_lab.endpoint}/bucket/x", interrupted)
    assert runai_lab.workload("job-1-logs").deleted


def test_a_helper_that_is_gone_already_is_no_trouble(runai_lab: RunaiLab, job: dict[str, Any]):
    runai_lab.fault("DELETE *", "404", times=None)
    assert fetched(runai_lab, job, {}).endswith(LOG.decode())


def test_a_helper_that_was_left_behind_is_deleted_beside_its_copy(
    runai_lab: RunaiLab, s3_lab: S3Lab, job: dict[str, Any]
):
    left = workload(runai_lab, "job-1-logs", "Completed")
    copy(s3_lab)
    offsets: dict[str, int] = {}
    assert fetched(runai_lab, job, offsets) == LOG.decode()
    assert left.deleted
    assert fetched(runai_lab, job, offsets) == ""
    assert len(runai_lab.calls_of("GET /workloads")) == 1


# What is not asked again and again


@pytest.mark.parametrize("way", ["copy", "claim"])
def test_a_log_that_is_looked_at_often_asks_seldom_for_the_state(
    runai_lab: RunaiLab, s3_lab: S3Lab, job: dict[str, Any], tmp_path: Path, way: str
):
    """Who follows a job asks for its state anyway: what was seen then counts, at once when it is over."""
    made = runai_lab.workload("job-1")
    made.enter("Running")
    job = {**job, "here": str(tmp_path / "jobs" / "job-1")} if way == "claim" else job
    copy(s3_lab)
    offsets: dict[str, int] = {"nemotron": 1} if way == "copy" else {}
    for _ in range(20):
        assert logs.new_chunks(api_of(runai_lab, kube=""), job, offsets, LIMIT) == []
    assert len(runai_lab.calls_of("GET /workloads/*")) == 1
    made.enter("Completed")
    (seen,) = DgxCloudProvider().status([job])
    assert seen.state == "succeeded"
    told = text(logs.new_chunks(api_of(runai_lab, kube=""), job, offsets, LIMIT))
    assert (LOG.decode() in told) if way == "copy" else ("is not the directory that they see" in told)


def test_a_refused_helper_is_said(runai_lab: RunaiLab, job: dict[str, Any]):
    runai_lab.fault("POST /workloads/*", "403")
    assert "the logs could not be fetched" in fetched(runai_lab, job, {})
