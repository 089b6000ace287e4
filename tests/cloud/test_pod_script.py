"""What a pod does besides running the job script, and what it says at its end, whatever ends it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from labs.pods import Pods, needs_mounts
from pod_process import cloud_plan, loaded, name_service, node, producing, start, start_as_variables

from nemo_runspec.backends.cloud.code.upload import pod_arguments
from nemo_runspec.backends.cloud.pod.program import boot_program, node_program
from nemo_runspec.records.metrics import last_values
from nemo_runspec.script.markers import cause, deciding_marker
from nemo_runspec.script.pod_marker import metrics_history, outputs_of, read_ends

TELL = """
    import json, os
    names = "NODE_RANK NNODES MASTER_ADDR MASTER_PORT WORKER_ADDRS NUM_GPU_PER_NODE PET_NNODES".split()
    print(json.dumps({name: os.environ.get(name) for name in names}))
"""


def told(pod):
    """What TELL has said."""
    return next(json.loads(line[line.index("{") :]) for line in pod.text.splitlines() if '{"NODE_RANK"' in line)


@pytest.mark.parametrize("form", ["worker", "my-job-ab12"])
def test_lepton_nodes_find_the_first_by_the_form_of_its_name_that_leads_anywhere(tmp_path, form):
    first = f"{form}-0.my-job-ab12-job-svc"
    cargo, path = loaded(cloud_plan(tmp_path, TELL, nodes=2)), name_service(tmp_path, first)
    pods = [start(cargo, **node(index, PATH=path)) for index in (1, 0)]
    assert [pod.wait() for pod in pods] == [0, 0], pods[0].text + pods[1].text
    seen = [told(pod) for pod in pods]
    assert [each["NODE_RANK"] for each in seen] == ["1", "0"]
    for each in seen:
        assert (each["MASTER_ADDR"], each["MASTER_PORT"], each["NNODES"]) == (first, "29400", "2")
        assert (each["WORKER_ADDRS"], each["NUM_GPU_PER_NODE"]) == (f"{form}-1.my-job-ab12-job-svc", "0")
    assert pods[0].end.node == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"LEPTON_SUBDOMAIN": ""}, "Lepton has not set LEPTON_SUBDOMAIN"),
        ({"LEPTON_JOB_TOTAL_WORKERS": "3"}, "the platform has started 3 pods"),
        ({"LEPTON_JOB_WORKER_PREFIX": "", "LEPTON_JOB_SERVICE_PREFIX": ""}, "node 0 has no name"),
    ],
    ids=["no subdomain", "another count", "no name"],
)
def test_lepton_variable_that_is_missing_is_named_and_ends_all_nodes(tmp_path, change, said):
    cargo, path = loaded(cloud_plan(tmp_path, TELL, nodes=2)), name_service(tmp_path, "worker-0.my-job-ab12-job-svc")
    first = start(cargo, **node(0, PATH=path))
    second = start(cargo, **node(1, PATH=path) | change)
    assert (first.wait(), second.wait()) == (1, 1)
    assert said in second.end.reason and second.end.phase == "start"
    assert first.end.reason == f"node 1 failed: {second.end.reason}"
    assert [(each.end.reason_code, each.end.blames) for each in (first, second)] == [("", 1), ("", None)]
    end = deciding_marker(read_ends(first.out + second.out).values())
    assert end is not None and end.node == 1


def test_names_that_lead_nowhere_are_all_said(tmp_path):
    plan = cloud_plan(tmp_path, nodes=2, env={"NEMOTRON_RESOLVE_SECONDS": "0"})
    pod = start(loaded(plan), **node(0, PATH=name_service(tmp_path)))
    assert pod.wait() == 1
    assert "no address for worker-0.my-job-ab12-job-svc my-job-ab12-0.my-job-ab12-job-svc" in pod.end.reason


@pytest.mark.slow
def test_names_are_asked_for_no_longer_than_they_may(tmp_path):
    path, asked = name_service(tmp_path), tmp_path / "asked"
    program = Path(path.partition(":")[0]) / "getent"
    program.write_text(f"#!/bin/sh\necho $2 >> {asked}\nsleep 2\nexit 2\n")
    plan = cloud_plan(tmp_path, nodes=2, env={"NEMOTRON_RESOLVE_SECONDS": "3"})
    pod = start(loaded(plan), **node(0, PATH=path))
    assert pod.wait() == 1
    assert len(asked.read_text().splitlines()) == 2, "a name service that takes its time is asked once"


def test_runai_nodes_take_the_operators_variables(tmp_path):
    cargo = loaded(cloud_plan(tmp_path, TELL, nodes=2), kind="dgxcloud")
    given = {"MASTER_ADDR": "localhost", "MASTER_PORT": "23456", "WORLD_SIZE": "2", "PET_NNODES": "2"}
    pods = [start_as_variables(cargo, RANK=str(index), **given) for index in (1, 0)]
    assert [pod.wait() for pod in pods] == [0, 0], pods[0].text + pods[1].text
    seen = [told(pod) for pod in pods]
    assert [each["NODE_RANK"] for each in seen] == ["1", "0"]
    assert {(each["MASTER_ADDR"], each["MASTER_PORT"]) for each in seen} == {("localhost", "23456")}
    assert all(each["WORKER_ADDRS"] and each["PET_NNODES"] is None for each in seen)


def test_runai_node_without_a_master_is_an_error(tmp_path):
    pod = start_as_variables(loaded(cloud_plan(tmp_path, nodes=2), kind="dgxcloud"), RANK="0", WORLD_SIZE="2")
    assert pod.wait() == 1
    assert "run:ai has not set MASTER_ADDR" in pod.end.reason


def test_commands_before_the_job_run_and_one_that_fails_ends_it(tmp_path):
    commands = (f"echo one > {tmp_path}/ran", "echo before; (exit 4)", "echo after")
    pod = start(loaded(cloud_plan(tmp_path, "print('no')", target={"pre_launch_commands": commands})))
    assert pod.wait() == 4
    assert (tmp_path / "ran").read_text() == "one\n"
    assert "before\n" in pod.text and "after" not in pod.text and "no\n" not in pod.text
    assert pod.end.reason == "a command of pre_launch_commands failed"
    assert pod.end.reason_code == "pre_launch"


def test_a_node_that_fails_before_its_job_script_ends_the_others_amid_theirs(tmp_path):
    path = name_service(tmp_path, "worker-0.my-job-ab12-job-svc")
    commands = ('[ "$NEMOTRON_POD_INDEX" -ne 1 ] || exit 4; sleep 3600',)
    cargo = loaded(cloud_plan(tmp_path, "print('no')", nodes=2, target={"pre_launch_commands": commands}))
    pods = [start(cargo, **node(index, PATH=path)) for index in (0, 1)]
    assert [pod.wait() for pod in pods] == [4, 4]
    assert [pod.end.blames for pod in pods] == [1, None]
    assert pods[0].end.reason == "node 1 failed: a command of pre_launch_commands failed"


def test_results_are_told_and_become_the_newest_version(tmp_path):
    plan = cloud_plan(
        tmp_path,
        """
        import os, pathlib
        pathlib.Path(os.environ["MADE"]).mkdir(parents=True)
        with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as file:
            file.write('{"step": 1, "loss": 3.5, "val_loss": 4.5}\\n{"step": 2, "loss": 2.5}\\n')
        os.write(1, b"no end of line")
        raise SystemExit(int(os.environ.get("CODE", "0")))
        """,
    )
    made = tmp_path / "run" / "artifacts" / "my-model" / plan.name
    cargo = loaded(producing(plan, "model", str(made)))
    made.parent.mkdir(parents=True)
    (made.parent / f".latest.{plan.name}").symlink_to(plan.name)  # of a pod that died before it could rename it
    pod = start(cargo, MADE=str(made))
    assert pod.wait() == 0
    assert outputs_of(pod.out) == {"model": str(made)}
    assert last_values(metrics_history(pod.out).splitlines()) == {"step": 2.0, "loss": 2.5, "val_loss": 4.5}
    assert (made.parent / "latest").readlink() == Path(plan.name)
    assert pod.end.lines == len(pod.text.splitlines()) - 1


def test_job_that_failed_has_no_new_version(tmp_path):
    plan = cloud_plan(tmp_path, "import os; os.makedirs(os.environ['MADE']); os._exit(5)")
    made = tmp_path / "run" / plan.name
    pod = start(loaded(producing(plan, "model", str(made))), MADE=str(made))
    assert pod.wait() == 5
    assert outputs_of(pod.out) == {"model": str(made)} and not (tmp_path / "run" / "latest").exists()


def test_version_waits_for_all_nodes(tmp_path):
    plan = cloud_plan(
        tmp_path,
        """
        import os, time
        if os.environ["NODE_RANK"] == "0":
            raise SystemExit(0)
        os.makedirs(os.environ["MADE"])
        while not os.path.exists(os.environ["NEMOTRON_JOB_DIR"] + "/status/node-0"):
            time.sleep(0.05)
        raise SystemExit(6)
        """,
        nodes=2,
    )
    made = tmp_path / "run" / plan.name
    cargo, path = loaded(producing(plan, "model", str(made))), name_service(tmp_path, "worker-0.my-job-ab12-job-svc")
    pods = [start(cargo, MADE=str(made), **node(index, PATH=path)) for index in (0, 1)]
    assert [pod.wait() for pod in pods] == [6, 6]
    assert pods[0].end.reason == "node 1 failed: exit code 6" and not (tmp_path / "run" / "latest").exists()
    end = deciding_marker(read_ends(pods[0].out + pods[1].out).values())
    assert end is not None and end.node == 1


def test_secrets_that_the_platform_keeps_do_not_come_into_the_log(tmp_path):
    plan = cloud_plan(
        tmp_path, "import os; print(os.environ['HF_TOKEN'])", target={"secret_vars": {"HF_TOKEN": "mine"}}
    )
    pod = start(loaded(plan), HF_TOKEN="hf_verysecret")
    assert pod.wait() == 0
    assert "******\n" in pod.text and "hf_verysecret" not in pod.text
    assert not [file for file in Path(plan.job_dir).rglob("*") if file.is_file() and b"hf_verys" in file.read_bytes()]


WAIT = """
    import os, signal, sys, time
    {handler}
    print("up", flush=True)
    while True:
        time.sleep(0.05)
"""


def test_stop_reaches_the_command_which_may_save_its_work(tmp_path):
    handler = "signal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(7)))"
    pod = start(loaded(cloud_plan(tmp_path, WAIT.format(handler=handler))))
    pod.wait_for("up")
    pod.term()
    assert pod.wait() == 7
    assert "saved\n" in pod.text
    assert (pod.end.exit_code, pod.end.received) == (7, "TERM")


def test_command_that_heeds_no_stop_has_said_its_end_before_it_is_killed(tmp_path):
    handler = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    pod = start(loaded(cloud_plan(tmp_path, WAIT.format(handler=handler), env={"NEMOTRON_STOP_SECONDS": "1"})))
    pod.wait_for("up")
    pod.term()
    pod.wait_for("nemotron-end: ")
    assert pod.process.poll() is None
    pod.kill()
    assert (pod.end.exit_code, pod.end.received, pod.end.phase) == (143, "TERM", "command")
    assert "still ran 1 s later" in pod.end.reason


@pytest.mark.slow
def test_command_that_hangs_is_ended_with_the_stacks_of_all_nodes(tmp_path):
    script = """
        import time
        import os, pathlib
        def waits_for_ever():
            time.sleep(600)
        top = pathlib.Path(os.environ["NEMOTRON_JOB_DIR"])
        (top / ("begun-" + os.environ["NODE_RANK"])).touch()
        while len(list(top.glob("begun-*"))) < 2:
            print("there is progress until both have begun", flush=True)
            time.sleep(0.2)
        waits_for_ever()
    """
    plan = cloud_plan(tmp_path, script, nodes=2, target={"stall_timeout": 20})
    path = name_service(tmp_path, "worker-0.my-job-ab12-job-svc")
    first, second = (start(loaded(plan), **node(index, PATH=path)) for index in (0, 1))
    for pod in (first, second):
        assert pod.wait() == 124, pod.text
        assert pod.end.reason == "no progress for 20 s (stall_timeout)"
        assert "in waits_for_ever" in pod.text or "waits_for_ever (" in pod.text, pod.text


@pytest.mark.slow
def test_command_that_writes_is_not_taken_for_one_that_hangs(tmp_path):
    script = "import time\nfor n in range(46):\n    print(n, flush=True)\n    time.sleep(0.5)\n"
    pod = start(loaded(cloud_plan(tmp_path, script, target={"stall_timeout": 20})))
    assert pod.wait() == 0, pod.text


def test_job_script_that_is_killed_without_a_word_is_a_failure(tmp_path):
    plan = cloud_plan(
        tmp_path,
        """
        import contextlib, os, pathlib, signal
        script, found = os.fsencode(os.environ["NEMOTRON_JOB_DIR"] + "/job.sh"), []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if script in (folder / "cmdline").read_bytes().split(b"\\0"):
                    found.append(int(folder.name))
        for number in (signal.SIGSTOP, signal.SIGKILL):  # so that none sees another end, and says so
            for process in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, number)
        """,
    )
    pod = start(loaded(plan))
    assert pod.wait() == 137
    assert (pod.end.exit_code, pod.end.reason) == (137, "the job script ended without a word (status 137)")


@needs_mounts
def test_stop_ends_a_job_as_process_1_of_its_container(tmp_path):
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))"
    plan = cloud_plan(tmp_path, WAIT.format(handler=handler))
    with Pods(tmp_path / "pods") as pods:
        command = ["/bin/bash", "-c", boot_program(node_program("lepton")), "nemotron", *pod_arguments(loaded(plan))]
        (tmp_path / "run").mkdir()
        pod = pods.start("a-pod", command, {}, [(tmp_path / "run", str(tmp_path / "run"), False)])
        pod.wait_for("up")
        assert pod.stop(grace=60) == 9
        (end,) = read_ends(pod.text.encode()).values()
        assert (end.exit_code, end.received, end.host) == (9, "TERM", "a-pod")


def test_a_failing_command_is_told_with_its_signal(tmp_path):
    pod = start(loaded(cloud_plan(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")))
    assert pod.wait() == 139
    assert cause(pod.end) == "the command was killed by signal 11 (SIGSEGV)"


@needs_mounts
def test_job_that_fills_the_disk_has_its_whole_log_and_its_end(tmp_path):
    plan = cloud_plan(
        tmp_path,
        """
        import os, sys
        try:
            with open(os.environ["NEMOTRON_JOB_DIR"] + "/big", "wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    continue
        except OSError as error:
            print(error.strerror, flush=True)
        for number in range(3000):
            print("line", number)
        sys.exit(4)
        """,
    )
    cargo = loaded(plan)
    (tmp_path / "run").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path / "run"], check=True)
    try:
        pod = start(cargo)
        assert pod.wait() == 4
        assert "No space left on device\n" in pod.text and "line 2999\n" in pod.text
        assert (pod.end.exit_code, pod.end.phase) == (4, "command")
    finally:
        subprocess.run(["umount", "-l", tmp_path / "run"], check=True)


@needs_mounts
def test_process_1_leaves_no_zombie_of_processes_that_lose_their_parent(tmp_path):
    script = """
        import os, pathlib, subprocess, time
        def zombies():
            stats = []
            for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
                try:
                    stats.append(file.read_text().rpartition(")")[2].split())
                except OSError:
                    continue
            return [stat for stat in stats if stat[:2] == ["Z", "1"]]
        for _ in range(20):
            subprocess.run(["sh", "-c", "sleep 0.1 & echo"], check=True)
        time.sleep(0.2)
        end = time.monotonic() + 60
        while zombies() and time.monotonic() < end:
            time.sleep(0.05)
        raise SystemExit(len(zombies()))
    """
    with Pods(tmp_path / "pods") as pods:
        cargo = loaded(cloud_plan(tmp_path, script))
        (tmp_path / "run").mkdir()
        command = ["/bin/bash", "-c", boot_program(node_program("lepton")), "nemotron", *pod_arguments(cargo)]
        pod = pods.start("a-pod", command, {}, [(tmp_path / "run", str(tmp_path / "run"), False)])
        assert pod.wait() == 0, pod.text
