"""A stop that comes while a pod makes itself ready, or between its steps, and that other nodes hear of it."""

from __future__ import annotations

import pytest
from labs.pods import Pods, needs_mounts
from pod_process import change_pod_script, cloud_plan, loaded, name_service, node, start

from nemo_runspec.backends.cloud.code.upload import pod_arguments
from nemo_runspec.backends.cloud.pod.program import boot_program
from nemo_runspec.script.pod_marker import read_ends

SIGNALS = {
    "/usr/local/bin/mkdir": """#!/bin/sh
/bin/mkdir "$@" || exit
case "$*" in *"/logs "*) kill -TERM 1 ;; esac
"""
}
"""A stop that comes while pod.sh makes its directories."""

BEFORE = "the job was told to stop (SIGTERM) before it had started"


@pytest.fixture
def container(tmp_path):
    """Starts a pod of a plan as process 1 of a container; `files` as for `Pods.start`."""
    (tmp_path / "run").mkdir()
    with Pods(tmp_path / "pods") as pods:

        def make(plan, env, files):
            command = ["/bin/bash", "-c", boot_program(), "nemotron", *pod_arguments(loaded(plan))]
            mounts, names = [(tmp_path / "run", str(tmp_path / "run"), False)], ["worker-0.my-job-ab12-job-svc"]
            return pods.start("a-pod", command, env, mounts, names, files=files)

        yield make


def end_of(pod):
    """What its last words say."""
    (end,) = read_ends(pod.text.encode()).values()
    return end


@needs_mounts
def test_stop_that_comes_before_all_is_ready_is_not_lost(tmp_path, container):
    pod = container(cloud_plan(tmp_path, "print('ran')"), {}, SIGNALS)
    assert pod.wait() == 143, pod.text
    end = end_of(pod)
    assert (end.exit_code, end.received, end.phase, end.reason) == (143, "TERM", "start", BEFORE)
    assert "[rank0]" not in pod.text


@needs_mounts
def test_node_that_is_stopped_before_all_is_ready_ends_the_others(tmp_path, container):
    plan = cloud_plan(tmp_path, "print('ran')", nodes=2)
    pods = [container(plan, node(index), files) for index, files in ((0, {}), (1, SIGNALS))]
    assert [pod.wait() for pod in pods] == [143, 143], pods[0].text + pods[1].text
    assert [end_of(pod).reason for pod in pods] == [f"node 1 failed: {BEFORE}", BEFORE]
    assert "[rank0]" not in pods[0].text


STOPPED = """  case $1 in %s) kill -TERM $$ ;; esac
  nemotron_pod_child=$!
"""


@pytest.mark.parametrize("command", ["bash", "nemotron_pod_prepare"])
def test_stop_that_comes_as_a_command_is_started_ends_that_command(tmp_path, monkeypatch, command):
    """The word that it still runs is then said by another process, whose number is not the command's."""
    change_pod_script(monkeypatch, "  nemotron_pod_child=$!\n", STOPPED % command)
    target = {"pre_launch_commands": ("sleep 3",)}
    pod = start(loaded(cloud_plan(tmp_path, "import time; time.sleep(600)", target=target)), **node(0, 1))
    assert pod.wait() == 143, pod.text
    assert (pod.end.exit_code, pod.end.received) == (143, "TERM")
    assert pod.end.reason.startswith("the job was told to stop (SIGTERM)")


def test_upload_that_ends_as_a_stop_comes_has_not_failed(tmp_path, monkeypatch, s3_lab):
    """Bash may miss its status then; here it is made to."""
    missed = '  nemotron_await "$nemotron_pod_child" nemotron_pod_signals\n'
    change_pod_script(monkeypatch, missed, f'{missed}  [ "$nemotron_pod_group" != none ] || nemotron_ended=143\n')
    where = {"output_url": "s3://bucket/out", "s3_endpoint": s3_lab.endpoint, "s3_region": s3_lab.region}
    plan = cloud_plan(tmp_path, "", target={"outputs": (str(tmp_path / "run"),), **where})
    pod = start(loaded(plan), ACCESS_KEY=s3_lab.access_key, SECRET_KEY=s3_lab.secret_key)
    assert pod.wait() == 0, pod.text


def test_node_that_is_stopped_between_two_steps_ends_the_others(tmp_path):
    last_moment = """[ "$LEPTON_JOB_WORKER_INDEX" = 0 ] || {
        trap 'exit 0' TERM; kill -TERM $PPID; while :; do sleep 0.05 || :; done; }"""
    target, env = {"pre_launch_commands": (last_moment,)}, {"NEMOTRON_BARRIER_SECONDS": "120"}
    cargo = loaded(cloud_plan(tmp_path, "print('ran')", nodes=2, target=target, env=env))
    path = name_service(tmp_path, "worker-0.my-job-ab12-job-svc")
    pods = [start(cargo, **node(index, PATH=path)) for index in (0, 1)]
    assert [pod.wait() for pod in pods] == [143, 143], pods[0].text + pods[1].text
    assert pods[1].end.reason == "the job was told to stop (SIGTERM)"
    assert pods[0].end.reason == f"node 1 failed: {pods[1].end.reason}"
