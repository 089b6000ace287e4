"""The parts of a Ray job's keeper, without Ray: what it counts, what it ends, what it keeps."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from job_scripts import alive
from waiting import line_of, until

from nemo_runspec.jobside import ray_node
from nemo_runspec.jobside.address import free_ports, is_free
from nemo_runspec.jobside.barriers import Failure
from nemo_runspec.jobside.job import JobTask
from nemo_runspec.jobside.ray import Keeper
from nemo_runspec.jobside.ray_home import RayHome
from nemo_runspec.jobside.ray_processes import MARK, RayProcesses
from nemo_runspec.jobside.ray_versions import has_tokens
from nemo_runspec.jobside.ray_watch import HERE, RayWatch
from nemo_runspec.jobside.records import Folder

BESIDE = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from nemo_runspec.jobside import processes
from nemo_runspec.jobside.ray_processes import MARK, RayProcesses, Warden
os.mkdir(sys.argv[2])
warden = Warden(RayProcesses("a-mark"), sys.argv[2])
child = processes.start(["sleep", "600"], {**os.environ, MARK: "a-mark"}, session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


def task(top: Path, node: int = 0, **ray: object) -> JobTask:
    told = json.dumps({"name": "a-job", "launch": "ray", "nodes": 2, "ray": {"timeout": 600, **ray}})
    (top / "status" / "gates-0").mkdir(parents=True, exist_ok=True)
    return JobTask(told, [f"root={top}", f"node={node}"])


class Said:
    """A node's Ray as its observer tells of it."""

    def __init__(self, **nodes: bool) -> None:
        facts = {"address": "", "host": "", "why": "its raylet ended", "resources": {"CPU": 2.0, "memory": 2.0**31}}
        named = {name.replace("_", "-"): {**facts, "alive": lives} for name, lives in nodes.items()}
        self.said = {"nodes": named} if named else {}

    def is_lost(self) -> bool:
        return False


def watch(top: Path, said: Said, **ray: object) -> RayWatch:
    job = task(top, **ray)
    Folder(job.barriers).write(f"{HERE}.1", {"host": "n2"})
    return RayWatch(job, said, Folder(job.barriers))  # type: ignore[arg-type]


def test_who_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NEMOTRON_NODE_IPS", "192.0.2.1\n192.0.2.2")
    assert watch(tmp_path, Said()).missing() == [0, 1]
    one = watch(tmp_path, Said(node_0=True))
    assert (one.missing(), one.missing_words()) == ([1], "node 1 (n2, 192.0.2.2) did not join Ray's head")
    both = watch(tmp_path, Said(node_0=True, node_1=True))
    assert (both.missing(), both.summary()) == ([], "2 nodes with 4 CPU, 4.0 GiB of memory")


def test_who_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    monkeypatch.delenv("NEMOTRON_NODE_IPS", raising=False)
    gone = Said(node_0=True, node_1=False)
    found = watch(tmp_path, gone)
    assert (found.loss(), found.lost_node) == ("Ray lost node 1 (n2): its raylet ended", 1)
    tolerant = watch(tmp_path, gone, tolerate=True)
    assert [tolerant.loss() for _ in range(3)] == ["", "", ""] and tolerant.lost_node is None
    assert capfd.readouterr().err.count("the job goes on, as ray_tolerate_lost says") == 1


def test_one_ray_and_one_python_on_all_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Ray itself refuses a Python that differs in its last number alone, unless a variable of its own allows it."""
    keeper = Keeper(task(tmp_path, node=1), "job.sh")
    own = Said()
    own.said = {"ray": "2.49.0", "python": "3.12.3"}
    keeper.same_version(own, {"ray": "2.49.0", "python": "3.12.3"})  # type: ignore[arg-type]
    for ray, python in (("2.60.0", "3.12.3"), ("2.49.0", "3.12.9")):
        both = f"node 1 has Ray 2.49.0 with Python 3.12.3, and node 0 has Ray {ray} with Python {python}"
        with pytest.raises(Failure, match=both):
            keeper.same_version(own, {"ray": ray, "python": python})  # type: ignore[arg-type]
    monkeypatch.setenv("RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL", "minor")
    keeper.same_version(own, {"ray": "2.49.0", "python": "3.12.9"})  # type: ignore[arg-type]
    assert [has_tokens(version) for version in ("2.49.2", "2.52.0", "2.60.0", "3.0.0")] == [False, True, True, True]


@pytest.mark.parametrize(
    ("slurm", "counted"), [({}, 4), ({"SLURM_CPUS_ON_NODE": "3"}, 3), ({"SLURM_CPUS_PER_TASK": "9"}, 4)]
)
def test_cores_are_those_that_the_job_may_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, slurm, counted):
    for name in ("SLURM_CPUS_ON_NODE", "SLURM_CPUS_PER_TASK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in slurm.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    monkeypatch.setattr(ray_node, "_QUOTA", str(tmp_path / "cpu.max"))
    assert ray_node.cpus() == counted
    (tmp_path / "cpu.max").write_text("200000 100000\n")
    assert ray_node.cpus() == 2


def test_ports_are_free_on_every_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_ports(1)[0]))
        found = free_ports(50)
        assert len(set(found)) == 50 and taken.getsockname()[1] not in found


@pytest.mark.parametrize("key", ["port", "dashboard"])
def test_a_port_that_another_cluster_has(tmp_path: Path, key: str):
    """It is said before Ray is started. A node that is not the first has none of them."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(Failure, match=rf"ray_(dashboard_)?port = {port} is taken on node 0 \(.*a free one"):
            ray_node.RayNode(task(tmp_path, **{key: port}))
        node = ray_node.RayNode(task(tmp_path, node=1, **{key: port}))
        node.end(str(tmp_path / "logs"), [])
    assert is_free(port)


def test_a_start_that_fails_is_tried_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd):
    """Then it says why, in Ray's own last words."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho 'no such thing\n   ^^~~'; exit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr("nemo_runspec.jobside.processes.wake", lambda: None)
    node = ray_node.RayNode(task(tmp_path, venv=str(python.parent)))
    try:
        node.prepare()
        with pytest.raises(Failure, match="Ray could not be started on node 0: no such thing; no such thing"):
            until(lambda: not node.starts())
    finally:
        node.end(str(tmp_path / "logs"), [])
    assert "is started once more: no such thing" in capfd.readouterr().err
    assert (tmp_path / "logs" / "start.log").read_text() == "no such thing\n   ^^~~\n" * 2
    assert not Path(node.home.path).exists()


def test_the_ray_of_an_image_counts_where_the_commands_python_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for folder, said in (("without", '{"ray": ""}'), ("with", '{"ray": "2.60.0", "address": "192.0.2.1:1"}')):
        (tmp_path / folder).mkdir()
        for name in ("python", "ray") if folder == "with" else ("python",):
            program = tmp_path / folder / name
            program.write_text(f"#!/bin/sh\necho '{said}' >&3\n")
            program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/without:{tmp_path}/with:{os.environ['PATH']}")
    monkeypatch.setattr("nemo_runspec.jobside.processes.wake", lambda: None)
    node = ray_node.RayNode(task(tmp_path))
    try:
        node.prepare()
        until(lambda: not node.starts())
        assert (node.python, node.said["address"]) == (f"{tmp_path}/with/python", "192.0.2.1:1")
    finally:
        node.end(str(tmp_path / "logs"), [])


def test_the_python_of_a_virtual_environment(tmp_path: Path):
    own = tmp_path / "venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.symlink_to(sys.executable)
    assert ray_node.python_of(str(tmp_path / "venv")) == ray_node.python_of(str(own.parent)) == str(own)
    with pytest.raises(Failure, match=f"there is no python in {tmp_path}"):
        ray_node.python_of(str(tmp_path))


def test_the_newest_logs_are_kept_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nemo_runspec.jobside.ray_home._MOST", 1000)
    home = RayHome()
    try:
        assert Path(home.path).stat().st_mode & 0o777 == 0o700
        logs = Path(home.ray) / "session_2026" / "logs"
        (logs / "events").mkdir(parents=True)
        for age, (name, text) in enumerate(
            [("raylet.out", "the key is s3cr3t-of-all"), ("events/e.log", "x" * 1500), ("old.log", "never")]
        ):
            (logs / name).write_text(text)
            os.utime(logs / name, (1e9 - age, 1e9 - age))
        home.keep_logs(str(tmp_path / "kept"), [b"s3cr3t-of-all"])
        kept = {file.name: file.read_text() for file in (tmp_path / "kept").iterdir()}
        assert kept == {"raylet.out": "the key is ******", "events.e.log": "x" * (1000 - 24)}
    finally:
        home.remove()
    assert not Path(home.path).exists()


def test_all_of_a_node_ends_and_nothing_else():
    """A server in a session of its own, its child without the mark, and what only has the session."""
    words = f"(env -u {MARK} sleep 600 & echo $!; setsid env -u {MARK} sleep 600 & echo $!; wait)"
    marked = {**os.environ, MARK: "this-one"}
    own = subprocess.Popen(["bash", "-c", words], env=marked, stdout=subprocess.PIPE, text=True, start_new_session=True)
    other = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: "another"})
    try:
        children = [int(line_of(own.stdout)) for _ in range(2)]
        ray = RayProcesses("this-one")
        ray.session = own.pid
        assert {own.pid, *children} <= set(ray.process_ids())
        own.poll()
        left = ray.end()
        own.wait(60)
        assert not set(left) - {own.pid} and not any(map(alive, children)) and other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_what_a_killed_keeper_leaves_is_ended(tmp_path: Path):
    source = str(Path(ray_node.__file__).parents[2])
    words = [sys.executable, "-c", BESIDE, source, str(tmp_path / "home")]
    keeper = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    server = int(line_of(keeper.stdout))
    keeper.kill()
    keeper.wait()
    until(lambda: not alive(server) and not (tmp_path / "home").exists(), "the end of what it has left")
