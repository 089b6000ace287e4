"""What node 0 waits for before it copies outputs and ends, and that it waits for no node that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pod_process import (
    HeldUpload,
    cloud_plan,
    loaded,
    name_service,
    node,
    producing,
    start,
    start_as_variables,
)
from waiting import until

from nemo_runspec.script.markers import deciding_marker
from nemo_runspec.script.pod_marker import read_ends

LATER = """
    import os, pathlib, time
    made, rank = pathlib.Path(os.environ["MADE"]), os.environ["NODE_RANK"]
    made.mkdir(parents=True, exist_ok=True)
    if rank == "1":
        while not os.path.exists(os.environ["NEMOTRON_JOB_DIR"] + "/status/node-0"):
            time.sleep(0.05)
        time.sleep(float(os.environ["LATER"]))
    (made / rank).write_text(rank)
"""
"""Node 1 makes its output LATER seconds after node 0 has ended its command."""

PATIENT = 20
"""Seconds without a sign of life: longer than one that lives stands still on a busy machine. Others are lost sooner."""

CLOUDS = pytest.mark.parametrize("kind", ["lepton", "dgxcloud"])


class Job:
    """Both pods of a job that copies `made` away and makes a version, as their cloud would start them."""

    def __init__(self, top: Path, lab, kind: str, made: Path, lost: int, **env: str) -> None:
        data = {"output_url": "s3://bucket/out", "s3_endpoint": lab.endpoint, "s3_region": lab.region}
        waits = {"NEMOTRON_LOST_SECONDS": str(lost)}
        plan = cloud_plan(top, LATER, target={"outputs": (str(made),), **data}, nodes=2, env=waits)
        version = top / "run" / "my-model" / plan.name
        version.mkdir(parents=True)
        cargo = loaded(producing(plan, "model", str(version)), kind=kind)
        self.status, self.latest = Path(plan.job_dir, "status"), version.parent / "latest"
        env = {"ACCESS_KEY": lab.access_key, "SECRET_KEY": lab.secret_key, "MADE": str(made), **env}
        if kind == "lepton":
            env["PATH"] = name_service(top, "worker-0.my-job-ab12-job-svc")
            self.pods = [start(cargo, **node(index, **env)) for index in (0, 1)]
        else:
            env |= {"MASTER_ADDR": "localhost", "WORLD_SIZE": "2"}
            self.pods = [start_as_variables(cargo, RANK=str(index), **env) for index in (0, 1)]

    @property
    def text(self) -> str:
        return "".join(pod.text for pod in self.pods)

    def wait_for(self, name: str) -> None:
        """Until the status folder has this."""
        until(lambda: self.text, name, lambda _: (self.status / name).exists())

    def wait(self) -> list[int]:
        return [pod.wait() for pod in self.pods]


@pytest.fixture
def begin(tmp_path, s3_lab):
    """Starts a job; none of its processes is left."""
    jobs = []

    def make(kind, made=tmp_path / "run" / "made", lost=300, **env):
        jobs.append(Job(tmp_path, s3_lab, kind, made, lost, **env))
        return jobs[-1]

    yield make
    for pod in (pod for job in jobs for pod in job.pods):
        pod.kill()


def names(lab) -> list[str]:
    """What has been copied away, by its last names."""
    return sorted(url.partition("/out/")[2].partition("/")[2] for url in lab.urls("s3://bucket/out/"))


@pytest.mark.slow
@CLOUDS
def test_what_a_later_node_makes_is_copied_and_published_too(begin, s3_lab, kind):
    job = begin(kind, lost=PATIENT, LATER=str(PATIENT + 3))
    assert job.wait() == [0, 0], job.text
    assert names(s3_lab) == ["made/0", "made/1"]
    assert job.latest.is_symlink()


@CLOUDS
def test_node_that_is_gone_without_a_word_is_not_waited_for(begin, s3_lab, kind):
    job = begin(kind, lost=3, LATER="1000")
    job.wait_for("node-0")
    job.pods[1].kill()
    assert job.pods[0].wait() == 1
    assert job.pods[0].end.reason == "node 1 failed: it has shown no sign of life for 3 s"
    assert names(s3_lab) == ["made/0"] and not job.latest.is_symlink()


@pytest.mark.slow
@CLOUDS
def test_node_0_ends_after_the_others_have_copied_their_outputs(begin, s3_lab, own, kind):
    s3_lab.fault("PUT *node-1*", "slow", seconds=PATIENT + 3)
    job = begin(kind, own, lost=PATIENT, LATER="0")
    assert job.pods[0].wait() == 0, job.text
    assert {"made/1", "node-1/made/1"} <= {name.replace(own.name, "made") for name in names(s3_lab)}
    assert job.pods[1].wait() == 0


def test_node_that_is_gone_while_it_copies_its_outputs_is_a_failure(begin, s3_lab, own):
    s3_lab.fault("PUT *node-1*", "timeout", times=None)
    job = begin("dgxcloud", own, lost=3, LATER="0")
    job.wait_for("node-1")
    job.pods[1].kill()
    assert job.pods[0].wait() == 1
    assert "no sign of life" in job.pods[0].end.reason and not job.latest.is_symlink()


@CLOUDS
def test_outputs_that_another_node_cannot_copy_are_the_jobs_failure(begin, s3_lab, own, kind):
    s3_lab.fault("PUT *node-1*", "403", times=None)
    job = begin(kind, own, LATER="0")
    assert job.wait() == [1, 1]
    end = deciding_marker(read_ends(b"".join(pod.out for pod in job.pods)).values())
    assert end is not None and end.node == 1 and end.reason.startswith("outputs: ")
    assert not job.latest.is_symlink()


def test_stop_does_not_end_the_wait_for_uploads_of_others(begin, s3_lab, own, tmp_path):
    upload = HeldUpload(tmp_path, 1)
    job = begin("dgxcloud", own, LATER="0", PATH=upload.path, NEMOTRON_STOP_SECONDS="0")
    try:
        upload.wait_for(job.pods[1])
        job.pods[0].wait_for("nemotron: outputs: ")
        for pod in job.pods:
            pod.term()
            pod.wait_for("still ran 0 s later")
    finally:
        upload.let_go()
    assert job.wait() == [0, 0], job.text
    assert {"made/1", "node-1/made/1"} <= {name.replace(own.name, "made") for name in names(s3_lab)}
    assert job.latest.is_symlink()


def test_stop_is_heeded_while_others_are_waited_for(begin, s3_lab):
    job = begin("dgxcloud", LATER="1000")
    job.wait_for("node-0")
    job.pods[0].term()
    assert job.pods[0].wait() == 143
    assert "(SIGTERM) before node 1 had ended" in job.pods[0].end.reason
    assert names(s3_lab) == ["made/0"]
    assert job.pods[1].process.poll() is None
