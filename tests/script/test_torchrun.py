"""The job script with a real torchrun, on one node and on two that are simulated as Slurm would start them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from job_scripts import lay_out, plan_for, start_script
from waiting import line_of, until

from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import NodeMarker, cause, deciding_marker, read_markers

LONG = 300
"""Seconds. torch alone takes some to be imported, and there are up to six processes of it; what hangs takes 600."""

TELL = """
    import json, os
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    total = torch.ones(1)
    dist.all_reduce(total)
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "NNODES",
             "NEMOTRON_NODE_RANK", "NEMOTRON_NUM_NODES", "NEMOTRON_NODE_IPS", "EXTRA")
    print(json.dumps({"sum": total.item(), **{n: os.environ.get(n) for n in names}}))
    dist.destroy_process_group()
"""


def run_one(plan, top: Path, torch_bin: Path) -> tuple[int, str]:
    process = start_script(lay_out(plan), top, PATH=f"{torch_bin}:{os.environ['PATH']}")
    output, _ = process.communicate(timeout=LONG)
    return process.returncode, output


def start_nodes(
    plan, top: Path, torch_bin: Path, *, tasks_per_node: int = 1, which: tuple[int, ...] = (0, 1), **extra: str
) -> list[subprocess.Popen]:
    """What srun starts on two nodes, both this machine, or on one of them."""
    layout = lay_out(plan)
    nodes, common = 2, {"SLURM_JOB_ID": "77", "PATH": f"{torch_bin}:{os.environ['PATH']}", **extra}
    return [
        start_script(
            layout,
            top,
            SLURM_NNODES=str(nodes),
            SLURM_NTASKS=str(nodes * tasks_per_node),
            SLURM_NODEID=str(node),
            SLURM_PROCID=str(node * tasks_per_node + local),
            SLURM_LOCALID=str(local),
            **common,
        )
        for node in which
        for local in range(tasks_per_node)
    ]


def finish(processes) -> list[tuple[int, str]]:
    ended = []
    for process in processes:
        output, _ = process.communicate(timeout=LONG)
        ended.append((process.returncode, output))
    return ended


def told(*outputs: str) -> list[dict]:
    lines = [line for output in outputs for line in output.splitlines() if '{"sum"' in line]
    for line in lines:
        assert line.startswith(f"[rank{json.loads(line.partition(' ')[2])['RANK']}] ")
    return sorted((json.loads(line.partition(" ")[2]) for line in lines), key=lambda d: int(d["RANK"]))


def marker(plan):
    found = deciding_marker(read_markers(Path(JobLayout(plan.job_dir).status)))
    assert found is not None
    return found


@pytest.mark.slow
def test_two_ranks_on_one_node(tmp_path, torch_bin):
    plan = plan_for(tmp_path, TELL, launch="torchrun", processes=2, setup=("export EXTRA='a  b'",))
    code, output = run_one(plan, tmp_path, torch_bin)
    assert code == 0, output
    seen = told(output)
    assert [d["RANK"] for d in seen] == ["0", "1"]
    assert {(d["sum"], d["WORLD_SIZE"], d["EXTRA"]) for d in seen} == {(2.0, "2", "a  b")}


@pytest.mark.slow
def test_one_rank_fails_and_is_named(tmp_path, torch_bin):
    script = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(3)\ntime.sleep(600)"
    plan = plan_for(tmp_path, script, launch="torchrun", processes=2)
    assert run_one(plan, tmp_path, torch_bin)[0] == 3
    assert cause(marker(plan)) == "rank 1 ended with exit code 3"


@pytest.mark.slow
def test_one_rank_is_killed_and_is_named(tmp_path, torch_bin):
    script = "import os, time\nif os.environ['RANK'] == '1': os.kill(os.getpid(), 9)\ntime.sleep(600)"
    plan = plan_for(tmp_path, script, launch="torchrun", processes=2)
    assert run_one(plan, tmp_path, torch_bin)[0] == 137
    assert cause(marker(plan)) == "rank 1 was killed by signal 9 (SIGKILL)"


@pytest.mark.slow
def test_arguments_arrive_unchanged(tmp_path, torch_bin):
    arguments = ("a b", "$HOME", "new\nline", "q'\"", "--rank", "ü")
    script = "import json, sys\nprint(json.dumps(sys.argv[1:]))"
    plan = plan_for(tmp_path, script, launch="torchrun", args=arguments)
    code, output = run_one(plan, tmp_path, torch_bin)
    assert code == 0, output
    assert json.dumps(list(arguments)) in output.splitlines()


@pytest.mark.slow
def test_a_signal_reaches_every_rank_once(tmp_path, torch_bin):
    script = """
        import signal, sys, time
        got = []
        signal.signal(signal.SIGTERM, lambda *_: got.append(1))
        print("ready", flush=True)
        while not got:
            time.sleep(0.05)
        time.sleep(0.5)
        print("signals", len(got), flush=True)
        sys.exit(0)
    """
    plan = plan_for(tmp_path, script, launch="torchrun", processes=2)
    process = start_script(lay_out(plan), tmp_path, PATH=f"{torch_bin}:{os.environ['PATH']}")
    lines = []
    while sum("ready" in line for line in lines) < 2:
        lines.append(line_of(process.stdout))
        assert lines[-1], lines
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=LONG)
    assert output.count("signals 1") == 2, output
    assert "SignalException" not in output  # torchrun itself is not told
    assert (process.returncode, marker(plan).received) == (0, "TERM")  # the ranks' own ending counts, as under direct


def test_no_torch_is_said_by_python_and_fails(tmp_path):
    empty = tmp_path / "bin"
    empty.mkdir()
    (empty / "python").write_text('#!/bin/sh\necho "No module named torch" >&2\nexit 1\n')
    (empty / "python").chmod(0o755)
    code, output = run_one(plan_for(tmp_path, launch="torchrun"), tmp_path, empty)
    assert code == 1
    assert "No module named torch" in output
    assert cause(marker(plan_for(tmp_path, launch="torchrun"))) == "exit code 1"


LOOPBACK = {"MASTER_ADDR": "127.0.0.1"}


@pytest.mark.slow
def test_two_nodes_meet(tmp_path, torch_bin):
    plan = plan_for(tmp_path, TELL, executor="slurm", launch="torchrun", nodes=2, processes=2, env=LOOPBACK)
    Path(plan.job_dir).mkdir(parents=True)
    Path(JobLayout(plan.job_dir).secrets).write_text("export EXTRA='s3cret'\n")
    ended = finish(start_nodes(plan, tmp_path, torch_bin))
    assert [code for code, _ in ended] == [0, 0], ended
    seen = told(*(output for _, output in ended))
    assert [d["RANK"] for d in seen] == ["0", "1", "2", "3"]
    assert [d["NODE_RANK"] for d in seen] == ["0", "0", "1", "1"] == [d["NEMOTRON_NODE_RANK"] for d in seen]
    assert {(d["sum"], d["WORLD_SIZE"], d["NNODES"], d["MASTER_ADDR"]) for d in seen} == {(4.0, "4", "2", "127.0.0.1")}
    assert {len(d["NEMOTRON_NODE_IPS"].splitlines()) for d in seen} == {2}
    assert {d["EXTRA"] for d in seen} == {"s3cret"}
    assert Path(JobLayout(plan.job_dir).secrets).exists()  # a requeued job needs them once more
    assert [m.node for m in read_markers(Path(JobLayout(plan.job_dir).status))] == [0, 1]


@pytest.mark.slow
def test_a_rank_of_the_second_node_fails(tmp_path, torch_bin):
    script = "import os, sys, time\nif os.environ['RANK'] == '3': sys.exit(9)\ntime.sleep(600)"
    plan = plan_for(tmp_path, script, executor="slurm", launch="torchrun", nodes=2, processes=2, env=LOOPBACK)
    ended = finish(start_nodes(plan, tmp_path, torch_bin))
    assert [code for code, _ in ended] == [9, 9], ended
    assert "node 1 failed (rank 3)" in ended[0][1]
    assert (marker(plan).node, marker(plan).rank, marker(plan).exit_code) == (1, 3, 9)


def test_a_node_that_fails_its_setup_fails_the_job_and_is_named(tmp_path, torch_bin):
    setup = ('if [ "$NODE_RANK" = 1 ]; then exit 6; fi',)
    plan = plan_for(tmp_path, TELL, executor="slurm", launch="torchrun", nodes=2, setup=setup, env=LOOPBACK)
    ended = finish(start_nodes(plan, tmp_path, torch_bin))
    assert [code for code, _ in ended] == [6, 6]
    for _, output in ended:
        assert "node 1 failed in its setup: startup command 1 of 1" in output
        assert "rank" not in output
    assert "node 1" in cause(marker(plan))
    assert [each.blames for each in read_markers(Path(JobLayout(plan.job_dir).status))] == [1, None]


def test_a_slow_node_is_waited_for(tmp_path, torch_bin):
    setup = ('if [ "$NODE_RANK" = 1 ]; then sleep 2; fi', "date +%s.%N > set-up-$NODE_RANK")
    script = "import os, time\nprint(f'began {time.time()}')"
    plan = plan_for(tmp_path, script, executor="slurm", nodes=2, setup=setup, env=LOOPBACK)
    ended = finish(start_nodes(plan, tmp_path, torch_bin))
    assert [code for code, _ in ended] == [0, 0]
    last = max(float((tmp_path / f"set-up-{n}").read_text()) for n in (0, 1))
    for _, output in ended:
        assert float(output.split("began ")[1].split()[0]) >= last


def test_a_node_that_never_comes_is_named_after_the_time_limit(tmp_path, torch_bin):
    plan = plan_for(tmp_path, TELL, executor="slurm", nodes=2, env={**LOOPBACK, "NEMOTRON_BARRIER_SECONDS": "1"})
    ((code, output),) = finish(start_nodes(plan, tmp_path, torch_bin, which=(0,)))
    assert code == 1
    assert "task 1 of 2 did not reach" in output


def test_tasks_under_direct(tmp_path, torch_bin):
    script = "import os\nprint({n: os.environ[n] for n in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'NODE_RANK')})"
    plan = plan_for(tmp_path, script, executor="slurm", nodes=2, processes=2, env=LOOPBACK)
    ended = finish(start_nodes(plan, tmp_path, torch_bin, tasks_per_node=2))
    assert [code for code, _ in ended] == [0, 0, 0, 0]
    for rank, (_, output) in enumerate(ended):
        expected = {"RANK": str(rank), "LOCAL_RANK": str(rank % 2), "WORLD_SIZE": "4", "NODE_RANK": str(rank // 2)}
        assert f"[rank{rank}] {expected}" in output
    assert len(read_markers(Path(JobLayout(plan.job_dir).status))) == 4


@pytest.mark.slow
def test_markers_of_an_earlier_attempt_are_not_believed(tmp_path, torch_bin):
    plan = plan_for(tmp_path, "", executor="slurm", nodes=2, env=LOOPBACK)
    assert [code for code, _ in finish(start_nodes(plan, tmp_path, torch_bin))] == [0, 0]
    again = start_nodes(plan, tmp_path, torch_bin, which=(0,), SLURM_RESTART_COUNT="1")
    with pytest.raises(subprocess.TimeoutExpired):
        again[0].wait(timeout=3)
    again += start_nodes(plan, tmp_path, torch_bin, which=(1,), SLURM_RESTART_COUNT="1")
    assert [code for code, _ in finish(again)] == [0, 0]


LAUNCHER = """#!/bin/bash
trap '{on_int}' INT
: > "{begun}"
{then}
"""


def launched(top: Path, on_int: str, then: str) -> tuple[int, NodeMarker]:
    """A job whose launcher is slow: what it makes of an INT before it has a rank; how the job ended."""
    tools, begun = top / "tools", top / "launcher"
    tools.mkdir()
    (tools / "python").write_text(LAUNCHER.format(on_int=on_int, begun=begun, then=then))
    (tools / "python").chmod(0o755)
    plan = plan_for(top, launch="torchrun", cmd="trap 'exit 7' INT; while :; do sleep 0.05; done")
    layout = lay_out(plan)
    process = start_script(layout, top, PATH=f"{tools}:{os.environ['PATH']}")
    until(begun.exists, "the launcher")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=LONG)
    (record,) = read_markers(Path(layout.status))
    assert record.exit_code == process.returncode, output
    return process.returncode, record


def test_a_stop_that_its_launcher_loses_is_told_to_the_rank_that_it_starts_all_the_same(tmp_path):
    swallowed = tmp_path / "swallowed"
    starts = f'while [ ! -e "{swallowed}" ]; do sleep 0.05; done; RANK=0 bash "${{@: -2:1}}" --rank'
    code, record = launched(tmp_path, f': > "{swallowed}"', starts)
    assert (code, record.received, record.rank) == (7, "INT", None), "the only rank is not named"


def test_a_stop_before_there_are_ranks_is_one_whatever_the_launcher_makes_of_it(tmp_path):
    code, record = launched(tmp_path, "exit 3", "while :; do sleep 0.05; done")
    assert (code, record.received) == (130, "INT")
    assert cause(record) == "the job was told to stop (SIGINT) before its ranks had begun, exit code 130"
