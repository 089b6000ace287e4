"""What breaks under an errand: nothing is lost, nothing is doubled. Over the lab's real sshd, as nemotron comes."""

from __future__ import annotations

import os
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import (
    LabHost,
    Login,
    job_of,
    jobs_called,
    put,
    see,
    shim,
    slurm_plan,
    start,
    tasks_said,
    wait,
)
from waiting import be_patient, until

from nemo_runspec.backends.slurm.cluster.job import SlurmJobRef
from nemo_runspec.backends.slurm.cluster.stage import probe
from nemo_runspec.backends.slurm.cluster.status import query_jobs
from nemo_runspec.backends.slurm.cluster.stop import request_stop
from nemo_runspec.backends.slurm.cluster.submit import NotSubmitted, find, submit
from nemo_runspec.backends.slurm.executor import job_name
from nemo_runspec.backends.slurm.observe import collect_results, read_chunks, task_logs
from nemo_runspec.backends.slurm.render import slurm_programs
from nemo_runspec.errors import UserError
from nemo_runspec.records.status import JobStatus
from nemo_runspec.transport.base import Unreachable

pytestmark = needs_slurm


@pytest.fixture
def lab(slurm_lab_plain: SlurmLab) -> SlurmLab:
    return slurm_lab_plain


@pytest.fixture
def login(lab: SlurmLab) -> Iterator[Login]:
    with Login(lab) as host:
        yield host


def behind(action: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """An action that goes on in a thread, and a list that gets its result."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(action()), daemon=True)
    thread.start()
    return thread, results


@pytest.mark.parametrize("step", ["after-squeue", "after-sbatch"])
def test_a_connection_cut_during_a_submission(lab: SlurmLab, login: Login, tmp_path: Path, step: str):
    plan = slurm_plan(tmp_path, "")
    put(login, plan)
    shims = shim(tmp_path / "shims", step)
    said: list[str] = []
    with Login(lab, path=str(shims)) as cut:
        thread, found = behind(lambda: submit(cut, job_of(plan), said.append))
        until((shims / f"at-{step}").exists, "the submission at its step")
        assert lab.drop_ssh_connections() > 0
        until(lambda: said, "the cut noticed")
        (shims / "go").touch()
        thread.join(120)
    assert "lost under a command" in said[0]
    assert jobs_called(lab, job_name(plan)) == [found[0].id]


def test_a_connection_cut_during_a_transfer(lab: SlurmLab, login: Login, tmp_path: Path):
    """The package has half arrived, then the job's files have: each time the same call goes on."""
    (tmp_path / "data").write_bytes(os.urandom(12_000_000))
    archive = tmp_path / "code.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(tmp_path / "data", "data")
    plan = slurm_plan(tmp_path, "")
    values = {"archive": archive, "digest": "ab12", "secrets": {"TOKEN": "x" * 3_000_000}}
    with Cut(lab) as cut:
        for call in (2, 3):
            cut.cut_in = cut.calls + call
            with pytest.raises(Unreachable):
                put(cut, plan, **values)
            assert not probe(login, plan.job_dir).job
            cut.cut_in = 0
        put(cut, plan, **values)
    folder = Path(plan.job_dir)
    assert (folder / "code" / "data").read_bytes() == (tmp_path / "data").read_bytes()
    until(lambda: [path.name for path in folder.parent.iterdir()] == [plan.name], "nothing half left")
    pool = {"ab12.tar.gz", *(each.digest for each in slurm_programs())}
    until(lambda: {path.name for path in (tmp_path / "run" / "packages").iterdir()} == pool, "nothing half in the pool")


class Cut(Login):
    """A connection that is cut under the round trip of that number, once its first block has gone."""

    cut_in = 0

    def __init__(self, lab: SlurmLab) -> None:
        super().__init__(lab)
        self.lab = lab

    def run(self, script: str, *, data: Any = b"", timeout: float = 60.0) -> Any:
        """As `Host.run`."""
        if self.calls + 1 == self.cut_in:
            data = self._broken(data if isinstance(data, bytes) else b"".join(data))
        return super().run(script, data=data, timeout=timeout)

    def _broken(self, data: bytes) -> Iterator[bytes]:
        yield data[: len(data) // 2]
        self.lab.drop_ssh_connections()
        yield data[len(data) // 2 :]


def test_connections_cut_while_a_log_is_followed(lab: SlurmLab, login: Login, tmp_path: Path):
    file = tmp_path / "x.out"
    lines = [f"line {number} {'x' * (number % 300)}\n".encode() for number in range(30_000)]
    read, idle = b"", False
    cuts = 0

    def write() -> None:
        nonlocal cuts
        written = 0  # before the last cut: what comes of the bytes behind it has come over another connection
        with file.open("ab", buffering=0) as out:
            for number, line in enumerate(lines):
                out.write(line)
                if number % 6_000 == 3_000:
                    until(lambda: len(read), "a connection to cut", lambda size, before=written: size > before)
                    cuts += lab.drop_ssh_connections() > 0
                    written = out.tell()

    thread, _ = behind(write)
    while not idle:
        idle = not thread.is_alive()
        try:
            pieces = read_chunks(login, [str(file)], {str(file): len(read)}, limit=300_007)
        except Unreachable:
            idle = False
            continue
        for piece in pieces:
            assert piece.start == len(read)
            read += piece.content
            idle = False
    assert read == b"".join(lines)
    assert cuts > 1


def test_a_controller_restarted_during_a_submission(lab: SlurmLab, tmp_path: Path):
    plan = slurm_plan(tmp_path, "")
    host = LabHost(lab, str(shim(tmp_path / "shims", "after-squeue")))
    put(host, plan)
    thread, found = behind(lambda: submit(host, job_of(plan)))
    until((tmp_path / "shims" / "at-after-squeue").exists, "the submission between its look and sbatch")
    lab.stop_daemon("slurmctld")
    (tmp_path / "shims" / "go").touch()
    lab.start_daemon("slurmctld")
    thread.join(120)
    assert jobs_called(lab, job_name(plan)) == [found[0].id]


def test_a_frozen_controller(lab: SlurmLab, tmp_path: Path):
    """It hangs between the look and sbatch: sbatch is told that it timed out, and the job appears when it goes on.

    A job that could not be asked about is unknown, and one that may have been submitted is not called absent.
    """
    plan, other = (slurm_plan(tmp_path, "") for _ in range(2))
    shims = shim(tmp_path / "shims", "before-sbatch")
    slow, plain = LabHost(lab, str(shims)), LabHost(lab)
    for each in (plan, other):
        put(plain, each)
    said: list[str] = []
    thread, found = behind(lambda: submit(slow, job_of(plan), said.append))
    until((shims / "at-before-sbatch").exists, "the caller at sbatch")
    lab.freeze("slurmctld")
    (shims / "go").touch()
    with ThreadPoolExecutor(4) as pool:
        seen = pool.submit(see, plain, SlurmJobRef("1", plan.job_dir))
        looked = pool.submit(find, plain, job_of(other))
        with pytest.raises(NotSubmitted, match="Socket timed out"):
            looked.result()
        assert (seen.result().state, "Socket timed out" in seen.result().reason) == ("unknown", True)
        until(lambda: said, "an attempt that came to nothing")
    lab.thaw("slurmctld")
    assert find(plain, job_of(other)) is None
    thread.join(120)
    assert "Socket timed out" in said[0]
    assert jobs_called(lab, job_name(plan)) == [found[0].id]


def test_a_stopped_controller(slurm_lab: SlurmLab, tmp_path: Path):
    """Nothing is known of a job, nobody is told that it was cancelled, and a submission waits."""
    host = LabHost(slurm_lab)
    plan = slurm_plan(tmp_path, "")
    put(host, plan)
    job = start(host, slurm_plan(tmp_path, "", {"additional_parameters": {"begin": "now+1hour"}}))
    wait(host, job, "queued")
    slurm_lab.stop_daemon("slurmctld")
    with ThreadPoolExecutor(4) as pool:
        tried = pool.submit(submit, host, job_of(plan), pauses=())
        stopped = pool.submit(request_stop, host, [job], "a test")
        looked = pool.submit(find, host, job_of(plan))
        seen = pool.submit(see, host, job).result()
        assert (seen.state, "Unable to contact slurm controller" in seen.reason) == ("unknown", True)
        for errand in (tried, looked):
            with pytest.raises(NotSubmitted, match="Unable to contact slurm controller"):
                errand.result()
        with pytest.raises(UserError, match=r"cannot be cancelled: .*Unable to contact slurm controller"):
            stopped.result()
    slurm_lab.start_daemon("slurmctld")
    assert find(host, job_of(plan)) is None
    found = submit(host, job_of(plan))
    assert jobs_called(slurm_lab, job_name(plan)) == [found.id]
    assert see(host, job).state == "queued"


def test_a_node_set_down_mid_job_with_both_attempts_logs(lab: SlurmLab, login: Login, tmp_path: Path):
    script = """
    import os, time
    again = int(os.environ.get("SLURM_RESTART_COUNT", 0))
    print("attempt", again, os.uname()[1], flush=True)
    time.sleep(0 if again else 600)
    """
    plan = slurm_plan(tmp_path, script)
    job = start(login, plan)
    until(lambda: "attempt 0" in tasks_said(plan, job), "the command's begin")
    assert (first := see(login, job)).nodes == "n1", first
    lab.set_node_down("n1")
    until(lambda: see(login, job), "the second attempt", lambda seen: seen.restarts == 1)
    seen = wait(login, job)
    assert (seen.state, seen.restarts, seen.nodes) == ("succeeded", 1, "n2")
    logs = {
        p.path.rpartition("_")[2]: p.content
        for p in read_chunks(login, [task_logs(plan.job_dir, job_name(plan), job.id)])
    }
    assert b"attempt 0 n1\n" in logs["0.out"]
    assert b"attempt 1 n2\n" in logs["1.out"]


def test_a_disk_that_is_full(lab: SlurmLab, login: Login, tmp_path: Path):
    """For the code, for the job's files, and between them and the submission: nothing half is left, no job is there."""
    archive = tmp_path / "code.tar.gz"
    archive.write_bytes(os.urandom(6_000_000))
    profile = {"remote_job_dir": str(lab.small / "run")}
    plan, good = (slurm_plan(tmp_path, "", profile) for _ in range(2))
    for values in ({"archive": archive, "digest": "ab12"}, {"secrets": {"TOKEN": "x" * 6_000_000}}):
        with pytest.raises(UserError, match=r"No space left on device|Wrote only") as caught:
            put(login, plan, **values)
        assert "remote_job_dir" in str(caught.value)
        assert login.run(f"cd {lab.small}/run; find . -type f; ls -A jobs").text == ""
    put(login, good)
    login.run(f"head -c 8M /dev/zero > {lab.small}/filler")
    with pytest.raises(UserError, match="No space left on device"):
        submit(login, job_of(good))
    assert find(login, job_of(good)) is None
    login.run(f"rm {lab.small}/filler")
    found = submit(login, job_of(good))
    assert jobs_called(lab, job_name(good)) == [found.id]
    wait(login, SlurmJobRef(found.id))
    login.run(f"rm -rf {lab.small}/run")


def test_a_clock_that_is_wrong_by_days(lab: SlurmLab, login: Login, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    right = time.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: right() + 3 * 86400)
        before = right()
        plan = slurm_plan(tmp_path, "")
        job = start(login, plan)
        seen = wait(login, job)
    assert seen.state == "succeeded"
    assert seen.started is not None
    assert seen.ended is not None
    assert before - 5 < seen.started <= seen.ended < right() + 5
    assert (Path(plan.job_dir) / "job.yaml").stat().st_mtime < right() + 5


AT_ONCE = 50 if os.environ.get("REQUIRE_LAB") == "full" else 20


def test_many_submissions_at_once(lab: SlurmLab, login: Login, tmp_path: Path, monkeypatch):
    """sshd takes ten connections that have not logged in yet (MaxStartups), and ten sessions over one (MaxSessions)."""
    be_patient(monkeypatch)
    places = [tmp_path / str(number) for number in range(AT_ONCE)]
    before = lab.sshd.connections()

    def one(place: Path) -> tuple[str, str]:
        plan = slurm_plan(place, "")
        job = start(Login(lab, folder=login.folder), plan)
        return job_name(plan), job.id

    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = dict(pool.map(one, places))
    told = lab.run("squeue", "--noheader", "--states=all", "--format=%j %A").stdout.split("\n")
    listed = [tuple(line.split()) for line in told if line.split()[:1] and line.split()[0] in jobs]
    assert sorted(listed) == sorted(jobs.items())
    assert lab.sshd.connections() - before == 1
    seen = query_jobs(login, [SlurmJobRef(id) for id in jobs.values()])
    assert len(seen) == AT_ONCE


FILL = """
import os
file = os.open(os.environ["NEMOTRON_JOB_DIR"] + "/filler", os.O_WRONLY | os.O_CREAT)
for size in (65536, 1):
    try:
        while True:
            os.write(file, bytes(size))
    except OSError:
        pass
for number in range(50001):
    print("line", number)
raise SystemExit(EXIT)
"""


@pytest.mark.parametrize("code", [0, 7])
def test_lines_that_a_full_disk_has_no_room_for_are_counted_and_told(lab: SlurmLab, login: Login, tmp_path, code):
    plan = slurm_plan(tmp_path, FILL.replace("EXIT", str(code)), {"remote_job_dir": str(lab.small / "run")})
    job = start(login, plan)
    seen = wait(login, job)
    pieces = read_chunks(login, [task_logs(plan.job_dir, job_name(plan), job.id)])
    written = sum(piece.content.count(b"\nline ") for piece in pieces)
    handle = {"job_dir": plan.job_dir, "name": job_name(plan), "id": job.id}
    (found,) = collect_results(login, [handle], [JobStatus(seen.state, detail=seen)])
    login.run(f"rm -rf {plan.job_dir}")
    assert (seen.state, seen.exit_code) == ("failed" if code else "succeeded", code)
    assert 40_000 < found.lost_lines <= 50_001
    assert abs(50_001 - written - found.lost_lines) <= 1, "but for the first and the last line, which may be cut"
