"""A stop that comes while a pod makes itself ready, or between its steps, and that other nodes hear of it."""

from __future__ import annotations

import pytest
from labs.pods import Pods, needs_mounts
from pod_process import cloud_plan, loaded, name_service, node, path_of_tests, start

from nemo_runspec.backends.cloud.code.upload import pod_arguments
from nemo_runspec.backends.cloud.pod.program import boot_program, node_program
from nemo_runspec.script.pod_marker import read_ends


def signals(moment, name="TERM"):
    """A python3 that tells process 1 to stop: before it is asked for its release, or as it becomes process 1."""
    text = f'#!/bin/sh\ncase "$*" in {moment}) kill -{name} 1 ;; esac\nexec /usr/bin/python3 "$@"\n'
    return {"/usr/local/bin/python3": text}


MOMENTS = pytest.mark.parametrize("moment", ["*version_info*", "*'supervisor.py pod'*"], ids=["page", "start"])

BEFORE = "the job was told to stop (SIGTERM) before it had started"


HEARS = """
import signal, time
signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True) or exit(0))
time.sleep(60)
print("nothing heard", flush=True)
"""


@pytest.fixture
def container(tmp_path):
    """Starts a pod of a plan as process 1 of a container; `files` as for `Pods.start`."""
    (tmp_path / "run").mkdir()
    with Pods(tmp_path / "pods") as pods:

        def make(plan, env, files):
            command = [
                "/bin/bash",
                "-c",
                boot_program(node_program("lepton")),
                "nemotron",
                *pod_arguments(loaded(plan)),
            ]
            mounts, names = [(tmp_path / "run", str(tmp_path / "run"), False)], ["worker-0.my-job-ab12-job-svc"]
            return pods.start("a-pod", command, env, mounts, names, files=files)

        yield make


def end_of(pod):
    """What its last words say."""
    (end,) = read_ends(pod.text.encode()).values()
    return end


@needs_mounts
@MOMENTS
@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("INT", 130), ("HUP", 129)])
def test_stop_that_comes_before_all_is_ready_is_not_lost(tmp_path, container, moment, name, code):
    pod = container(cloud_plan(tmp_path, "print('ran')"), {}, signals(moment, name))
    assert pod.wait() == code, pod.text
    end = end_of(pod)
    assert (end.exit_code, end.received, end.phase) == (code, name, "start")
    assert end.reason == BEFORE.replace("TERM", name)
    assert "ran\n" not in pod.text


@needs_mounts
@pytest.mark.parametrize("moment", ["*version_info*", "*'supervisor.py pod'*"], ids=["page", "start"])
def test_what_is_for_the_command_and_comes_before_all_is_ready_waits_for_it(tmp_path, container, moment):
    pod = container(cloud_plan(tmp_path, HEARS), {}, signals(moment, "USR1"))
    assert pod.wait() == 0, pod.text
    assert "heard\n" in pod.text


@needs_mounts
@MOMENTS
def test_node_that_is_stopped_before_all_is_ready_ends_the_others(tmp_path, container, moment):
    plan = cloud_plan(tmp_path, "print('ran')", nodes=2)
    pods = [container(plan, node(index), files) for index, files in ((0, {}), (1, signals(moment)))]
    assert [pod.wait() for pod in pods] == [143, 143], pods[0].text + pods[1].text
    assert [end_of(pod).reason for pod in pods] == [f"node 1 failed: {BEFORE}", BEFORE]
    assert "ran\n" not in pods[0].text


@pytest.mark.parametrize("command", ['*"-c sleep"*', "*/job.sh"], ids=["prepare", "job script"])
def test_stop_that_comes_as_a_command_is_started_ends_that_command(tmp_path, command):
    """With its first breath, before it can have heard of anything."""
    folder, once = tmp_path / "first", tmp_path / "once"
    folder.mkdir()
    bash = f'#!/bin/sh\ncase "$*" in {command}) ! mkdir {once} || kill -TERM $PPID ;; esac\nexec /bin/bash "$@"\n'
    (folder / "bash").write_text(bash)
    (folder / "bash").chmod(0o755)
    target = {"pre_launch_commands": ("sleep 3",)}
    plan = cloud_plan(tmp_path, "import time; time.sleep(600)", target=target)
    pod = start(loaded(plan), **node(0, 1, PATH=f"{folder}:{path_of_tests()}"))
    assert pod.wait() == 143, pod.text
    assert once.is_dir()
    assert (pod.end.exit_code, pod.end.received) == (143, "TERM")
    assert pod.end.reason.startswith("the job was told to stop (SIGTERM)")


def test_signal_for_the_command_that_comes_while_the_profiles_own_commands_run_waits_for_it(tmp_path):
    target = {"pre_launch_commands": ("kill -USR1 $PPID; sleep 0.2",)}
    pod = start(loaded(cloud_plan(tmp_path, HEARS, target=target)), **node(0, 1))
    assert pod.wait() == 0, pod.text
    assert "heard\n" in pod.text


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
