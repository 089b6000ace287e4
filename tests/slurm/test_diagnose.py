"""Jobs that really fail, each in its own way, on a real Slurm; and what is said of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, configured, slurm_plan, start, wait
from waiting import until

from nemo_runspec.backends.slurm.cluster.job import ClusterJob, SlurmJobRef
from nemo_runspec.backends.slurm.diagnose import diagnose
from nemo_runspec.backends.slurm.executor import job_name
from nemo_runspec.backends.slurm.observe import collect_results, job_statuses
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.plans.model import Plan
from nemo_runspec.script.markers import NodeMarker

EVER = "import pathlib, time; pathlib.Path('begun').touch(); print('begun', flush=True); time.sleep(600)"


class Ward:
    """Jobs that were submitted together."""

    def __init__(self, lab: SlurmLab, top: Path) -> None:
        self.lab, self.host, self.top = lab, LabHost(lab), top
        self.jobs: dict[str, tuple[Plan, SlurmJobRef]] = {}

    def admit(self, name: str, script: str, profile: dict[str, Any] | None = None, **values: Any) -> None:
        top = self.top / name
        top.mkdir()
        plan = slurm_plan(top, script, {"exclude": "n4", **(profile or {})}, **values)
        self.jobs[name] = (plan, start(self.host, plan))

    def handle(self, name: str) -> dict[str, Any]:
        plan, job = self.jobs[name]
        return {"name": job_name(plan), "job_dir": plan.job_dir, "nodes": plan.resources.nodes, "id": job.id}

    def diagnosis(self, name: str) -> Diagnosis:
        """As a command asks for it once the job is over."""
        wait(self.host, self.jobs[name][1], seconds=240)
        handles = [self.handle(name)]
        seen = job_statuses(self.host, handles)
        found = collect_results(self.host, handles, seen)[0].diagnosis
        assert found is not None, seen
        return found

    def said(self, name: str) -> str:
        return "".join(
            file.read_text(errors="replace") for file in sorted(Path(self.jobs[name][0].job_dir).glob("*.out"))
        )


@pytest.fixture
def small_memory() -> Iterator[str]:
    """A startup command that puts the job into a control group of 200 MB, as Slurm does where it confines memory."""
    for top, limit in (("memory/", "memory.limit_in_bytes"), ("", "memory.max")):
        group = Path(f"/sys/fs/cgroup/{top}nemotron-{uuid.uuid4().hex[:8]}")
        try:
            group.mkdir()
            (group / limit).write_text(str(200 << 20))
        except OSError:
            if group.is_dir():
                group.rmdir()
            continue
        yield f"echo $$ > {group}/cgroup.procs"
        until((group / "cgroup.procs").read_text, "the job's end", lambda left: not left)
        group.rmdir()
        return
    pytest.skip("lab: no writable memory control group here (needs root)")


EXPECTED = {
    "late": ("time limit", "reached its time limit after", "DUE TO TIME LIMIT", "raise time"),
    "lost": ("node failure", "node n4 failed under it", "Node failure on n4", 'exclude = "n4"'),
    "import": (
        "import error",
        "rank 1 cannot import not_there_9, at recipes/test/main.py:3",
        "ModuleNotFound",
        "install",
    ),
    "image": (
        "image",
        "no such image file",
        "[ERROR] No such file or directory: /nowhere/nemo.sqsh",
        "container_image",
    ),
    "registry": ("image", "no such image in the registry", "404 Not Found", "its name and tag"),
    "setup": (
        "setup",
        "node 1 failed in its setup: startup command 1 of 1 (n2)",
        "pip-of-nobody: command not found",
        "",
    ),
    "lines": ("setup", "setup_lines ended the batch script", "module: there is no nemo/9", "setup_lines"),
    "srun": ("launch", "srun does not take an option", "srun: unrecognized option '--no-such-option'", "srun_args"),
    "memory": ("out of memory", "used more memory on n1", "out of memory", "raise mem"),
    "killed": (
        "killed",
        "the command was killed by signal 9 (SIGKILL) on n1",
        "step 1",
        "something other than this job",
    ),
    "stalled": (
        "stall",
        "it made no progress for 20 s (stall_timeout); it was at main.py:3",
        "",
        "the stacks",
    ),
    "gave-up": ("user code", "gave up: data_dir", "error: data_dir /nowhere holds no whole dataset", "to mend"),
    "silent": ("", "exit code 3; what it wrote last may say why", "step 1 / the end", "--platform"),
}


@pytest.fixture
def lab(slurm_lab: SlurmLab) -> Iterator[SlurmLab]:
    """With time: so long has a job that is ended to say why."""
    with configured(slurm_lab, KillWait=20):
        yield slurm_lab


AFTER_RANK_1 = """
import os, time
while os.environ["RANK"] == "0" and not os.path.exists("../status/node-1"): time.sleep(0.1)
import not_there_9
"""  # the first failure is the cause: rank 0 waits for the record of it


GAVE_UP = """
import sys
print("error: data_dir /nowhere holds no whole dataset", flush=True)
print("E1122 14:02:09.000000 812 torch/distributed/elastic/api.py:869] failed (exitcode: 2)", flush=True)
class ChildFailedError(Exception): pass
raise ChildFailedError("main.py FAILED")
"""  # as torchrun ends whose process has


@needs_slurm
def test_real_failures(lab: SlurmLab, tmp_path: Path, small_memory: str):
    """All at once: Slurm looks for what has run too long twice a minute."""
    ward = Ward(lab, tmp_path)
    ward.admit("late", EVER)
    ward.admit("lost", EVER, {"exclude": "n1,n2,n3"})
    ward.admit("import", AFTER_RANK_1.strip(), nodes=2)
    ward.admit("image", "print('never')", {"container_image": "/nowhere/nemo.sqsh"})
    ward.admit("registry", "print('never')", {"container_image": "nvcr.io/nvidia/gone:1"})
    setup = ('[ "$NEMOTRON_NODE_RANK" = 0 ] || pip-of-nobody install x',)
    # Its second node is named in what is expected, and Slurm takes those that have room.
    ward.admit("setup", "print('never')", {"exclude": "n[3-4]"}, nodes=2, setup=setup)
    ward.admit("lines", "print('never')", {"setup_lines": "echo 'module: there is no nemo/9' >&2\nexit 5"})
    ward.admit("srun", "print('never')", {"srun_args": ["--no-such-option"]})
    ward.admit("memory", "x = bytearray(600 << 20); print(len(x))", {"exclude": "n[2-4]"}, setup=(small_memory,))
    ward.admit("killed", "import os; print('step 1', flush=True); os.kill(os.getpid(), 9)", {"exclude": "n[2-4]"})
    ward.admit("stalled", "import time\nprint('step 1', flush=True)\ntime.sleep(600)", {"stall_timeout": "20s"})
    ward.admit("gave-up", GAVE_UP.strip())
    ward.admit("silent", "import sys; print('step 1'); print('the end'); sys.exit(3)")
    for name in ("late", "lost"):
        until(lambda name=name: "begun" in ward.said(name), f"{name} has begun")
    lab.run("scontrol", "update", f"JobId={ward.jobs['late'][1].id}", "TimeLimit=0")
    lab.run("scontrol", "update", f"JobId={ward.jobs['lost'][1].id}", "Requeue=0")
    lab.set_node_down("n4")
    found = {name: ward.diagnosis(name) for name in ward.jobs}
    assert set(found) == set(EXPECTED)
    wrong = {name: said for name, said in found.items() if not as_expected(said, *EXPECTED[name])}
    assert wrong == {}, "\n".join(ward.said(name) for name in wrong)


def as_expected(said: Diagnosis, kind: str, what: str, evidence: str, remedy: str) -> bool:
    return said.kind == kind and what in said.what and evidence in said.evidence and remedy in said.remedy


def failed(slurm: str = "FAILED", why: str = "", *, markers: Sequence[NodeMarker] = (), **values: Any) -> ClusterJob:
    """A job that is over, without the cluster."""
    given = {
        "state": "failed",
        "reason": "exit code 1",
        "exit_code": 1,
        "nodes": "n[1-2]",
        "elapsed": 14_400.0,
        **values,
    }
    return ClusterJob("12", slurm_state=slurm, slurm_reason=why, markers=tuple(markers), **given)


def of(job: ClusterJob, tail: str = "", batch: str = "") -> Diagnosis:
    found = diagnose(job, tail.encode(), batch.encode())
    assert found is not None
    return found


PREEMPTED = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-21T11:52:05 DUE TO PREEMPTION ***"
LATE = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-21T11:52:05 DUE TO TIME LIMIT ***"
OOM = "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0. Some of the step tasks have been OOM Killed."
REFUSED = "pyxis: [ERROR] URL https://reg.corp/v2/a/manifests/1 returned error code: 401 Unauthorized"
LOGIN = "pyxis: [INFO] Authentication succeeded\npyxis: [ERROR] Command not found: zstd"
FULL = "pyxis: [ERROR] mksquashfs: write failed because No space left on device"
MANY = "pyxis: [ERROR] URL https://reg.corp/v2/a/manifests/1 returned error code: 429 Too Many Requests"
LACKS = "7 GPUs, and 8 are asked for (given up after 3 other tries)"
TRACE = 'Traceback (most recent call last):\n  File "/w/main.py", line 3, in <module>\n'


@pytest.mark.parametrize(
    ("job", "batch", "kind", "what", "evidence"),
    [
        (failed("OUT_OF_MEMORY"), OOM, "out of memory", "more memory", OOM),
        (failed("TIMEOUT"), "", "time limit", "after 4 h", "Slurm says TIMEOUT"),
        (failed("PREEMPTED"), f"{LATE}\n{PREEMPTED}", "preemption", "higher priority took its nodes", PREEMPTED),
        (failed("CANCELLED by 0", state="cancelled"), "", "cancelled", "was cancelled after 4 h", "Slurm says"),
        (failed("BOOT_FAIL"), "", "node failure", "could not be started", "Slurm says BOOT_FAIL"),
        (failed("FAILED", "BadConstraints"), "", "constraint", "no node", "Slurm says FAILED (BadConstraints)"),
        (failed("FAILED", "InvalidAccount"), "", "account", "account", "InvalidAccount"),
        (failed("FAILED", "QOSMaxWallDurationPerJobLimit"), "", "QoS", "QoS", "QOSMax"),
        (failed("FAILED", "launch failed requeued held"), "", "launch", "could not start it", "requeued held"),
        (failed(""), f"{LATE}\n", "time limit", "after 4 h", LATE),
        (failed("", state="lost", reason="Slurm no longer knows it"), "", "lost", "no longer knows", ""),
        (
            failed("FAILED"),
            "srun: error: Unable to create step for job 12: Invalid generic resource",
            "launch",
            "resource",
            "",
        ),
        (failed("FAILED", "(None)"), REFUSED, "image", "the registry does not let this job have", "401"),
        (failed("FAILED"), MANY, "image", "too many pulls", "429"),
        (failed("FAILED"), LOGIN, "image", "its container could not be started", "zstd"),
        (failed("FAILED"), FULL, "storage", "no room for the container's image", "No space left"),
        (failed("FAILED", reason="exit code 9"), "", "", "exit code 9; its log does not say why", "Slurm says FAILED"),
    ],
)
def test_what_slurm_says(job: ClusterJob, batch: str, kind: str, what: str, evidence: str):
    said = of(job, batch=batch)
    assert (said.kind, what in said.what, evidence in said.evidence) == (kind, True, True), said
    assert said.remedy


def test_an_earlier_attempt_is_not_the_last():
    """The batch script's log holds all attempts: what ended the first is no reason of the second."""
    said = of(failed(markers=[NodeMarker(0, 1, rank=0)]), f"[rank0] {TRACE}[rank0] ValueError: nan", PREEMPTED)
    assert (said.kind, said.evidence) == ("user code", "ValueError: nan")


@pytest.mark.parametrize(
    ("reason", "beside"),
    [
        ("a node is bad, in whatever words", {"reason_code": "health", "detail": LACKS}),
        (f"health check: bad node n3: {LACKS}", {}),
    ],
    ids=["as it is written", "as an earlier release wrote it"],
)
def test_the_health_check_names_a_node(reason, beside):
    said = of(failed(markers=[NodeMarker(2, 1, phase="start", host="n3", reason=reason, **beside)]))
    assert (said.kind, said.what) == (
        "health check",
        "node n3 is bad: 7 GPUs, and 8 are asked for (given up after 3 other tries)",
    )
    assert 'exclude = "n3"' in said.remedy


def test_a_batch_script_that_its_setup_lines_end():
    reason = "setup_lines ended the batch script before its command"
    job = failed(reason=f"{reason}, exit code 5", markers=[NodeMarker(0, 5, phase="start", reason=reason)])
    batch = "set +e\n+ set +e\nexit 5\n+ exit 5\nnemotron: attempt 1: it is over\n"
    said = of(job, batch=batch)
    assert (said.kind, said.what, said.evidence) == ("setup", f"{reason}, exit code 5", reason)
    assert of(job, batch=f"no licence\n{batch}").evidence == "no licence"


def test_what_the_batch_script_writes_of_itself_is_no_evidence():
    lines = "# Command 1\n\nsrun --output x\n+ srun --output x\ngone\nexitcode=$?\n+ exitcode=9\n"
    lines += 'echo "job exited with code $exitcode"\njob exited with code 9\n'
    lines += "if [ $exitcode -ne 0 ]; then\n    exit $exitcode\nfi\n"
    assert of(failed(reason="exit code 9"), batch=lines).evidence == "gone"


def test_a_job_that_has_used_up_its_restarts():
    reason = "SIGTERM before the time limit; max_restarts = 10 is reached"
    said = of(failed(markers=[NodeMarker(0, 124, reason=reason)]), "step 78\n")
    assert (said.kind, said.what, said.evidence) == ("time limit", f"it is not done: {reason}", "step 78")
    assert "max_restarts" in said.remedy


def test_the_node_that_failed_and_not_the_one_that_heard_of_it():
    """Clocks differ: the marker of a node that ended for another's sake may be the older one."""
    reason = "node 1 failed in its setup: startup command 2 of 2"
    heard = NodeMarker(0, 1, phase="setup", host="n1", reason=reason, ended=10.0)
    blamed = NodeMarker(1, 1, phase="setup", host="n2", reason=reason, ended=11.0)
    said = of(failed(markers=[heard, blamed]), "pip: the index is gone\nnemotron: node 1 failed in its setup\n")
    assert (said.kind, said.what, said.evidence) == ("setup", f"{reason} (n2)", "pip: the index is gone")


def test_memory_of_the_gpu_is_not_that_of_the_node():
    tail = f"[rank1] {TRACE}".replace("\n", "\n[rank1] ") + "torch.OutOfMemoryError: CUDA out of memory.\n"
    job = failed(markers=[NodeMarker(0, 1, rank=1, oom=True)])
    assert of(job, tail).kind == "out of GPU memory"
    assert of(job, tail.replace("torch.OutOfMemoryError: CUDA out of memory.", "EOFError")).kind == "out of memory"


def test_a_broken_gpu_is_kept_away_from():
    tail = f"{TRACE}RuntimeError: CUDA error: uncorrectable ECC error encountered"
    said = of(failed(markers=[NodeMarker(1, 1, host="n2")]), tail)
    assert 'exclude = "n2"' in said.remedy


def test_an_echo_is_said_with_its_remedy():
    said = of(failed(), "RuntimeError: NCCL error in: x.cpp:2, ncclRemoteError\n")
    assert said.kind == "communication"
    assert 'env_vars = { NCCL_DEBUG = "INFO" }' in said.remedy


def test_a_hint_is_no_more_than_that():
    said = of(failed(reason="exit code 1"), "WARNING: /root/.config/matplotlib: Permission denied\n")
    assert said.what.startswith("exit code 1; perhaps: ")


@pytest.mark.parametrize("state", ["succeeded", "running", "queued", "unknown"])
def test_what_has_not_failed_has_no_diagnosis(state: str):
    assert diagnose(failed("", state=state), LATE.encode(), b"") is None
