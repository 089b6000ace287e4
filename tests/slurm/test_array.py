"""Sweeps on a real Slurm: one array, and each run of it a job with a state, a log and an end of its own."""

from __future__ import annotations

import csv
import dataclasses
import json
import stat
import sys
from pathlib import Path

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from labs.slurm.process import CLEAN
from slurm_jobs import command, slurm_plan, talking
from support import HEADER, Outcome, Project, contents
from waiting import until

from nemo_runspec.backends.slurm.array import SlurmArray
from nemo_runspec.planning.planned import Planned
from nemo_runspec.records import JobStore
from nemo_runspec.remote.cancel import stop_all
from nemo_runspec.remote.group import clear_together
from nemo_runspec.remote.refresh import refresh
from nemo_runspec.sweeps.model import Options
from nemo_runspec.sweeps.remote import RemoteSweep, end_now
from nemo_runspec.transport.connect import connect

pytestmark = needs_slurm

SECRET = "hf_arraysecretvalue"
BODY = """
import json, os, pathlib, sys, time
rows = (row.partition(":") for row in open(sys.argv[sys.argv.index("--config") + 1]))
given = {key.strip(): value.strip() for key, _, value in rows}
print("lr", given["lr"], "in", os.getcwd(), "task", os.environ.get("SLURM_ARRAY_TASK_ID"), flush=True)
print("length of the token", len(os.environ.get("HF_TOKEN", "")), flush=True)
with open(os.environ["NEMOTRON_METRICS_FILE"], "a", buffering=1) as metrics:
    for step in (1, 2):
        metrics.write(json.dumps({"step": step, "total_steps": 2, "loss": float(given["lr"]) / step}) + "\\n")
time.sleep(float(given["sleep"]))
sys.exit(int(given["fail"]))
"""
HELLO = ("t", "hello")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A project whose profile `lab` submits to a Slurm of this machine."""

    project: Project
    lab: SlurmLab
    top: Path
    call: object

    def __call__(self, *args: str, path: str = "", **extra: str) -> Outcome:
        """A nemotron command as a process, where that Slurm is."""
        words = ":".join(filter(None, (path, str(Path(sys.executable).parent), CLEAN["PATH"])))
        return self.call(*args, **{**self.lab.environment(), "PATH": words, **extra})

    @property
    def sweep(self) -> str:
        """The name of the only sweep."""
        (folder,) = (self.project.state / "sweeps").iterdir()
        return folder.name

    def records(self) -> list[dict]:
        """Of all jobs, by their ids on the cluster."""
        files = (self.project.state / "jobs").glob("*/record.json")
        return sorted((json.loads(file.read_text()) for file in files), key=lambda record: record["handle"]["id"])

    def results(self) -> list[dict]:
        """The sweep's table, in the order of the runs."""
        rows = csv.DictReader((self.project.state / "sweeps" / self.sweep / "results.csv").open())
        return sorted(rows, key=lambda row: int(row["index"]))

    def queue(self) -> list[str]:
        """What is in Slurm's queue."""
        return self.lab.run("squeue", "--noheader", "--format=%i %T").stdout.split()


@pytest.fixture
def cluster(project: Project, slurm_lab_plain: SlurmLab, tmp_path: Path, nemotron_process) -> Cluster:
    top = tmp_path / "cluster"
    project.recipe("t/hello", header=HEADER, body=BODY, default="lr: 0.1\nfail: 0\nsleep: 0\n")
    project.write("env.toml", f'[lab]\nexecutor = "slurm"\ntime = "00:05:00"\nremote_job_dir = "{top}"\n')
    return Cluster(project, slurm_lab_plain, top, nemotron_process)


@pytest.mark.parametrize("kind", ["preload", "errors", "output"])
def test_programs_that_say_more_than_they_are_asked(cluster, tmp_path, kind):
    """A site's notices, the id of another job in them: the array is submitted, seen and ended, and no other job is."""
    bystander = cluster.lab.submit("sleep 600")
    said = f"printf 'NOTICE: {bystander} RUNNING\\n{bystander}\\n{bystander} 1 RUNNING\\n'"
    path = "" if kind == "preload" else talking(tmp_path / "site", said + (" >&2" if kind == "errors" else ""))
    more = {"LD_PRELOAD": "/opt/site/lib/libnone.so"} if kind == "preload" else {}
    cluster(*HELLO, "--batch", "lab", "-m", "fail=0,1", "sleep=600", path=path, **more).succeeds()
    records = cluster.records()
    array = records[0]["handle"]["id"].partition("_")[0]
    assert [record["handle"]["id"] for record in records] == [f"{array}_0", f"{array}_1"]
    assert array != bystander
    members = cluster.top / "jobs" / cluster.sweep / "members"
    until(lambda: list(members.glob("*/log-*")), "both logs", lambda logs: len(logs) == 2)
    cluster("jobs", "cancel", cluster.sweep, path=path, **more).succeeds()
    assert [ended(record)[0] for record in cluster.records()] == ["cancelled", "cancelled"]
    assert cluster.lab.state(bystander) == "RUNNING"


def test_runs_are_one_array_and_each_is_a_job(cluster):
    tokens = (f"{SECRET}1", f"{SECRET}22")
    swept = f"+run.env.env_vars.HF_TOKEN={','.join(tokens)}"
    done = cluster(*HELLO, "--run", "lab", "-m", "fail=0,4", "lr=2", swept)
    assert done.code == 4, (done.out, done.err)
    records = cluster.records()
    array = records[0]["handle"]["id"].partition("_")[0]
    assert [r["handle"]["id"] for r in records] == [f"{array}_{task}" for task in range(4)]
    assert {r["handle"]["slurm"] for r in records} == {"lab"}
    assert [ended(r) for r in records] == [("succeeded", 0), ("succeeded", 0), ("failed", 4), ("failed", 4)]
    assert {record["group"] for record in records} == {cluster.sweep}
    assert [folder.name for folder in (cluster.top / "jobs").iterdir()] == [cluster.sweep]
    assert [(row["fail"], row["exit_code"], float(row["loss"])) for row in cluster.results()] == [
        ("0", "0", 1.0), ("0", "0", 1.0), ("4", "4", 1.0), ("4", "4", 1.0),
    ]  # fmt: skip
    assert "4 runs: 2 succeeded, 2 failed" in done.out
    assert f"log: ~/.nemotron/jobs/{records[2]['name']}/logs/job.log" in done.out
    for task, record in enumerate(records):
        assert cluster("jobs", "logs", record["name"]).succeeds().out.splitlines() == [
            f"lr 2 in {cluster.top}/jobs/{cluster.sweep}/members/{task}/code task {task}",
            f"length of the token {len(tokens[task % 2])}",
        ]
    assert "#SBATCH --array=0-3" in cluster("jobs", "show", "--script", records[1]["name"]).succeeds().out
    assert (
        f"task 1 of its array, in {cluster.top}/jobs/{cluster.sweep}/members/1\n"
        in cluster("jobs", "logs", "--platform", records[1]["name"]).succeeds().out
    )
    nothing_is_left_of_the_secret(cluster)
    cluster("jobs", "rm", cluster.sweep).succeeds()
    assert list((cluster.top / "jobs").iterdir()) == []


def test_one_run_is_cancelled_by_itself_and_the_whole_sweep_with_those_that_wait(cluster):
    sweep = (*HELLO, "--batch", "lab", "-m", "lr=1,2,3,4", "sleep=600", "run.env.max_parallel=2")
    group = cluster(*sweep).succeeds().out.strip()
    assert group == cluster.sweep
    until(
        lambda: states(cluster, group), "two that run", lambda seen: seen == ["queued", "queued", "running", "running"]
    )
    cluster("jobs", "cancel", cluster.records()[0]["name"]).succeeds()
    assert [ended(record)[0] for record in cluster.records()].count("cancelled") == 1
    until(
        lambda: states(cluster, group), "the next", lambda seen: seen == ["cancelled", "queued", "running", "running"]
    )
    cluster("jobs", "cancel", group).succeeds()
    assert {ended(record)[0] for record in cluster.records()} == {"cancelled"}
    assert all("cancelled by nemotron jobs cancel" in record["cause"] for record in cluster.records())
    until(cluster.queue, "an empty queue", lambda left: left == [])
    assert cluster("jobs", "wait", group).code != 0
    assert "4 cancelled" in cluster("jobs", "show", group).succeeds().out


def test_a_failure_ends_the_sweep_where_that_is_wanted(cluster, tmp_path):
    """Also where the calls for that are struck: by a signal that Slurm sends to all, and by a busy controller."""
    struck = 'mkdir "$0.1" 2> /dev/null'
    lines = {
        "squeue": f'case $* in *%K*) {struck} && kill -TERM $PPID ;; esac; exec /usr/bin/squeue "$@"',
        "scancel": f'{struck} && exit 1; exec /usr/bin/scancel "$@"',
    }
    for name, line in lines.items():
        command(tmp_path / name, line)
    settings = (cluster.project.folder / "env.toml").read_text()
    cluster.project.write("env.toml", f'{settings}setup_lines = "PATH={tmp_path}:$PATH"\n')
    overrides = ("-m", "sleep=600,1,601", "fail=3", "run.env.stop_on_failure=true")
    cluster(*HELLO, "--batch", "lab", *overrides).succeeds()
    assert cluster("jobs", "wait", cluster.sweep).code == 3
    assert states(cluster, cluster.sweep) == ["cancelled", "cancelled", "failed"]
    assert all((tmp_path / f"{name}.1").exists() for name in lines)


def test_retries_are_per_task(cluster):
    body = BODY.replace('int(given["fail"])', '0 if os.environ.get("SLURM_RESTART_COUNT") else int(given["fail"])')
    cluster.project.recipe("t/again", header=HEADER, body=body, default="lr: 0.1\nfail: 0\nsleep: 0\n")
    cluster("t", "again", "--run", "lab", "-m", "fail=0,5", "run.env.retries=1", HF_TOKEN=SECRET).succeeds()
    assert [record["facts"]["attempt"] for record in cluster.records()] == [0, 1]
    log = cluster("jobs", "logs", cluster.records()[1]["name"]).succeeds().out
    assert log.count(f"length of the token {len(SECRET)}") == 2


@pytest.mark.parametrize("sent", [False, True], ids=["before sbatch", "after sbatch"])
def test_a_client_killed_while_it_submits(cluster, tmp_path, sent):
    real = cluster.lab.run("bash", "-c", "type -P sbatch").stdout.strip()
    words = "yes" if sent else ""
    killer = tmp_path / "bin" / "sbatch"
    killer.parent.mkdir()
    killer.write_text(
        f"#!/bin/bash\n"
        f'[[ " $* " != *" --test-only "* ]] || exec {real} "$@"\n'
        f'[ -z "{words}" ] || {real} "$@" > /dev/null\n'
        f"pid=$(sed -n 's/.*\"pid\": \\([0-9]*\\).*/\\1/p' {cluster.project.state}/sweeps/*/sweep.json)\n"
        "kill -9 $pid\nwhile kill -0 $pid 2> /dev/null; do sleep 0.05; done\nexit 1\n"  # nobody hears it any more
    )
    killer.chmod(0o755)
    killed = cluster(*HELLO, "--batch", "lab", "-m", "lr=1,2,3", path=str(killer.parent))
    assert killed.code == -9, (killed.code, killed.out, killed.err)
    waited = cluster("jobs", "wait", cluster.sweep)
    if sent:
        assert waited.code == 0, (waited.out, waited.err)
        assert states(cluster, cluster.sweep) == ["succeeded"] * 3
        assert len({record["handle"]["id"].partition("_")[0] for record in cluster.records()}) == 1
    else:
        assert waited.code == 1, (waited.out, waited.err)
        assert "it was never submitted" in waited.out
        assert states(cluster, cluster.sweep) == ["failed"] * 3
    assert cluster.queue() == []


def test_an_array_that_the_profile_asks_for_is_one_job(cluster):
    body = BODY.replace('int(given["fail"])', '7 if os.environ["SLURM_ARRAY_TASK_ID"] == "1" else 0')
    cluster.project.recipe("t/many", header=HEADER, body=body, default="lr: 0.1\nfail: 0\nsleep: 1\n")
    done = cluster("t", "many", "--run", "lab", "run.env.array=0-2")
    assert done.code == 7, (done.out, done.err)
    (record,) = cluster.records()
    assert "_" not in record["handle"]["id"]
    log = cluster("jobs", "logs", record["name"]).succeeds().out
    assert all(f"task {task}\n" in log for task in range(3))


def test_in_containers_after_a_health_check(cluster):
    image = cluster.lab.image("array", {"/etc/lab-release": "made for tests\n"}, {})
    profile = f'\n[box]\nextends = "lab"\ncontainer_image = "{image}"\nhealth_check = true\nnodes = 2\n'
    cluster.project.write("env.toml", cluster.project.env_file.read_text() + profile)
    done = cluster(*HELLO, "--run", "box", "-m", "lr=1,2", HF_TOKEN=SECRET)
    assert done.code == 0, (done.out, done.err)
    for task, record in enumerate(cluster.records()):
        log = cluster("jobs", "logs", record["name"]).succeeds().out
        assert f"lr {task + 1} in /nemo_run/members/{task}/code task {task}" in log
        assert f"length of the token {len(SECRET)}" in log
        platform = cluster("jobs", "logs", "--platform", record["name"]).succeeds().out
        assert "health check: 2 node(s) are fine" in platform


def test_a_sweeper_gets_its_metrics_from_jobs(cluster):
    asked = ("hydra/sweeper=optuna", "hydra.sweeper.n_trials=2", "hydra.sweeper.n_jobs=2", "lr=interval(1,2)")
    done = cluster(*HELLO, "--run", "lab", "-m", *asked, "run.env.max_parallel=2")
    assert done.code == 0, (done.out, done.err)
    assert ["_" in record["handle"]["id"] for record in cluster.records()] == [False, False]
    assert all(float(row["loss"]) == pytest.approx(float(row["lr"]) / 2) for row in cluster.results())


def test_two_hundred_runs_take_few_round_trips(project, slurm_lab_plain, tmp_path, monkeypatch):
    for name, value in slurm_lab_plain.environment().items():
        monkeypatch.setenv(name, value)
    host, store = connect("local"), JobStore()
    first = slurm_plan(tmp_path, "", {"additional_parameters": {"hold": True}}, cmd="true")
    planned = [Planned(_renamed(first, number), {}) for number in range(200)]
    calls = host.calls
    runs = RemoteSweep("sweep-test-1121-abcdefgh", planned, ["nemotron"], Options(), lambda line: None)
    runs.record_jobs()
    runs.submit()
    assert host.calls - calls <= 4
    assert [len(batch.members) for batch in runs.batches] == [200]
    calls, records = host.calls, [record for record, _ in refresh(store, list(runs.records.values()))]
    assert host.calls - calls == 1
    assert {record.state for record in records} == {"queued"}
    assert len({record.handle["id"] for record in records}) == 200
    calls = host.calls
    stop_all(records, "a test", hard=False)
    assert host.calls - calls == 1
    until(
        lambda: slurm_lab_plain.run("squeue", "--noheader", "--format=%i").stdout,
        "the end of all",
        lambda left: left == "",
    )
    calls, records = host.calls, [record for record, _ in refresh(store, records)]
    assert host.calls - calls == 2  # how they are, and what is left of them
    assert {(record.state, record.cause) for record in records} == {("cancelled", "cancelled by a test")}
    assert clear_together(records) == {record.name for record in records}
    assert list((tmp_path / "run" / "jobs").iterdir()) == []


def test_runs_that_were_cut_off_before_they_were_submitted_leave_nothing_there(
    project, slurm_lab_plain, tmp_path, monkeypatch
):
    for name, value in slurm_lab_plain.environment().items():
        monkeypatch.setenv(name, value)

    def interrupted(array, say):
        raise KeyboardInterrupt

    planned = [Planned(_renamed(slurm_plan(tmp_path, "", {}, cmd="true"), number), {}) for number in range(3)]
    runs = RemoteSweep("sweep-test-1122-abcdefgh", planned, ["nemotron"], Options(), lambda line: None)
    runs.record_jobs()
    monkeypatch.setattr(SlurmArray, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runs.submit()
    assert len(list((tmp_path / "run" / "jobs").glob("*/members/*"))) == 3
    end_now(JobStore(), runs.names, "Ctrl-C")
    why = "cancelled by Ctrl-C before it was submitted"
    assert {(each.state, each.cause) for each in map(JobStore().by_name, runs.names)} == {("cancelled", why)}
    assert list((tmp_path / "run" / "jobs").iterdir()) == []


def _renamed(plan, number):
    name = f"test-1121-run{number:05d}"
    return dataclasses.replace(plan, name=name, job_dir=plan.job_dir.replace(plan.name, name))


def ended(record: dict) -> tuple[str, int | None]:
    return record["states"][-1]["state"], record["exit_code"]


def nothing_is_left_of_the_secret(cluster: Cluster) -> None:
    files = contents(cluster.top, cluster.project.state)
    assert len(files) > 20
    assert [file for file, content in files.items() if SECRET.encode() in content] == []
    sent = [file for file in files if file.name in ("train.yaml", "job.yaml") or file.suffix == ".sh"]
    assert all(stat.S_IMODE(file.stat().st_mode) & 0o077 == 0 for file in sent)


def states(cluster: Cluster, group: str) -> list[str]:
    """The states of a sweep's runs, in no order."""
    return sorted(job["state"] for job in cluster("jobs", "status", group, "--json").succeeds().json)
