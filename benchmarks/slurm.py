"""The errands on a Slurm cluster: a plan to a job id, `jobs status` of 1,000 jobs, a log that grows, an array of 1,000.

    uv run --group dev python benchmarks/slurm.py        # prints a table, exit code 1 where an aim is missed
    uv run --group dev python benchmarks/slurm.py --megabytes 100 --rounds 3

Runs against the lab of the tests (`.ci/lab` installs it): a real Slurm and a real sshd on this machine. Round trips
are counted twice: by the client, and as sessions in the sshd's own log.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "slurm")]

from job_records import copies  # noqa: E402
from labs.slurm.cluster import SlurmLab  # noqa: E402
from slurm_jobs import LabHost, Login, cargo_of, job_of, slurm_plan  # noqa: E402

from nemo_runspec.backends.slurm.cluster.job import SlurmJobRef  # noqa: E402
from nemo_runspec.backends.slurm.cluster.stage import StagedFiles, probe, stage  # noqa: E402
from nemo_runspec.backends.slurm.cluster.status import query_jobs  # noqa: E402
from nemo_runspec.backends.slurm.cluster.submit import submit  # noqa: E402
from nemo_runspec.backends.slurm.executor import job_name  # noqa: E402
from nemo_runspec.backends.slurm.observe import read_chunks  # noqa: E402
from nemo_runspec.plans.model import Plan  # noqa: E402
from nemo_runspec.records import JobStore  # noqa: E402
from nemo_runspec.transport.base import Host  # noqa: E402

SUBMISSION_AIM, STATUS_AIM, COMMAND_AIM = 6, 2, 1
"""Round trips: of a submission, of the states of 1,000 jobs, of `jobs status` of as many with progress."""

RUNNING = 64
"""Tasks that run while 1,000 are asked about: one takes processes of this machine."""

SHAPE_AIM = 1.1
"""What a submission of a new shape may take, beside one that was submitted before: nothing but noise."""

FOLLOW_AIM = 100.0
"""Megabytes per second."""

JOBS = 1000
LATER = {"additional_parameters": {"begin": "now+1hour"}}
"""What is timed is the submission: the jobs themselves shall not take the processors meanwhile."""

SUBMITIT = """
import sys, time, submitit

def task(number):
    return number

executor = submitit.SlurmExecutor(folder=sys.argv[1])
executor.update_parameters(
    partition="batch", time=5, array_parallelism=4, additional_parameters={"begin": "now+1hour"}
)
begin = time.perf_counter()
jobs = executor.map_array(task, range(int(sys.argv[2])))
print(time.perf_counter() - begin, jobs[0].job_id.split("_")[0])
"""

Row = tuple[str, str, str, bool]
"""What was done, the figure, the aim, whether it is met."""


def seconds_of(action: Callable[[], object]) -> float:
    """How long it takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def errands(host: Host, plan: Plan, cargo: StagedFiles) -> str:
    """Asks, sends, submits; the job's id."""
    stage(host, plan.job_dir, cargo, probe(host, plan.job_dir, cargo.digest, cargo.programs))
    return submit(host, job_of(plan)).id


def bench_submission(lab: SlurmLab, scratch: Path, rounds: int) -> list[Row]:
    """With a connection that is made for it, with one that is there, and with code that is there."""
    archive = scratch / "code.tar.gz"
    archive.write_bytes(subprocess.run(["tar", "-c", "-z", "-C", str(TESTS), "slurm"], stdout=-1, check=True).stdout)
    times: dict[str, list[float]] = {}
    trips: dict[str, set[tuple[int, int]]] = {}
    for number in range(rounds):
        kinds = {"no connection yet": f"a{number}", "new code": f"b{number}", "the same code": f"b{number}"}
        with Login(lab) as login:
            for kind, digest in kinds.items():
                plan = slurm_plan(scratch / str(number), "", LATER)
                cargo = cargo_of(plan, archive=archive, digest=digest)
                before = login.calls, lab.sshd.commands()
                times.setdefault(kind, []).append(seconds_of(partial(errands, login, plan, cargo)))
                trips.setdefault(kind, set()).add((login.calls - before[0], lab.sshd.commands() - before[1]))
    rows: list[Row] = []
    for kind, found in times.items():
        rows.append((f"ask, send, submit over SSH, {kind}", f"{statistics.median(found):.2f} s", "", True))
        rows.append(_trips(f"its round trips, {kind}", trips[kind], SUBMISSION_AIM))
    return rows


def bench_command(lab: SlurmLab, scratch: Path, rounds: int) -> list[Row]:
    """From Enter to the job id: the whole command, over a connection that is there."""
    project = _project(lab, scratch / "command")
    environment = _environment(project)
    words = [sys.executable, "-m", "nemotron", "run", "./train.py", "--batch", "lab"]
    submit_once = partial(subprocess.run, words, cwd=project, env=environment, check=True, capture_output=True)
    first = seconds_of(submit_once)
    before, again = lab.sshd.commands(), [seconds_of(submit_once) for _ in range(rounds)]
    trips = (lab.sshd.commands() - before) // rounds
    new = [seconds_of(partial(_submit_new_shape, project, submit_once, number)) for number in range(rounds)]
    ratio = statistics.median(new) / statistics.median(again)
    return [
        ("Enter to job id, no connection yet", f"{first:.2f} s", "", True),
        ("Enter to job id, after that", f"{statistics.median(again):.2f} s", "", True),
        ("a shape that was never submitted, beside it", f"{ratio:.2f} x", f"{SHAPE_AIM:.1f} x", ratio <= SHAPE_AIM),
        _trips("its round trips", {(trips, trips)}, SUBMISSION_AIM),
    ]


def bench_status_command(lab: SlurmLab, scratch: Path, rounds: int) -> list[Row]:
    """`jobs status` of jobs that all have written how far they are: the whole command."""
    project = _project(lab, scratch / "status")
    nemotron = partial(
        subprocess.run, cwd=project, env=_environment(project), check=True, capture_output=True, text=True
    )
    call = [sys.executable, "-m", "nemotron"]
    first = str(nemotron([*call, "run", "./train.py", "--batch", "lab"]).stdout).strip()
    arrays = {lab.submit("sleep 3600", f"--array=0-{RUNNING - 1}"): RUNNING}
    arrays[lab.submit("true", f"--array=0-{JOBS - RUNNING - 1}", "--hold")] = JOBS - RUNNING
    handles = [_with_progress(project, f"{id}_{task}") for id, tasks in arrays.items() for task in range(tasks)]
    store = JobStore(project / "home" / "jobs")
    names = copies(store, store.by_name(first), handles)
    nemotron([*call, "jobs", "status", *names])
    before, times = lab.sshd.commands(), []
    for _ in range(rounds):
        times.append(seconds_of(lambda: nemotron([*call, "jobs", "status", *names])))
    trips = (lab.sshd.commands() - before) // rounds
    lab.run("scancel", *arrays)
    return [
        (f"jobs status of {JOBS:,} jobs with progress", f"{statistics.median(times):.2f} s", "", True),
        _trips("its round trips", {(trips, trips)}, COMMAND_AIM),
    ]


def _with_progress(project: Path, id: str) -> dict[str, str]:
    """The handle of a task that has written 2,000 lines of metrics."""
    folder = project / "there" / id
    folder.mkdir(parents=True)
    lines = (f'{{"step": {n}, "total_steps": 4000, "loss": 1.5}}\n' for n in range(2000))
    (folder / "metrics.jsonl").write_text("".join(lines))
    return {"id": id, "job_dir": str(folder)}


def _environment(project: Path) -> dict[str, str]:
    path = f"{project / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "NEMOTRON_HOME": str(project / "home")}


def _submit_new_shape(project: Path, submit: Callable[[], object], number: int) -> None:
    """With options and lines that no submission had before; writing the profile is part of it."""
    _write_profile(project, f'setup_lines = "true {number}"\ncomment = "shape {number}"\ncpus_per_task = 1\n')
    submit()


def _project(lab: SlurmLab, folder: Path) -> Path:
    """A project whose profile leads to the lab over SSH."""
    login = Login(lab)
    (folder / "bin").mkdir(parents=True)
    ssh = folder / "bin" / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {login.folder / "config"} "$@"\n')
    ssh.chmod(0o755)
    (folder / "train.py").write_text("print(1)\n")
    _write_profile(folder)
    return folder


def _write_profile(folder: Path, more: str = "") -> None:
    (folder / "env.toml").write_text(
        '[lab]\nexecutor = "slurm"\ntunnel = "ssh"\nhost = "login"\npartition = "batch"\n'
        f'remote_job_dir = "{folder}/run"\nadditional_parameters = {{ begin = "now+1hour" }}\n{more}'
    )


def _trips(what: str, counted: set[tuple[int, int]], aim: int) -> Row:
    """`counted`: pairs of the client's count and the server's."""
    most = max(max(pair) for pair in counted)
    same = all(client == server for client, server in counted)
    return (what, f"{most}{'' if same else ', counted differently at the two ends'}", str(aim), same and most <= aim)


def bench_status(lab: SlurmLab, scratch: Path, rounds: int) -> list[Row]:
    """All tasks of an array that waits; and jobs that Slurm has forgotten, whose markers are read."""
    array = lab.submit("true", f"--array=0-{JOBS - 1}", "--hold")
    waiting = [SlurmJobRef(f"{array}_{number}") for number in range(JOBS)]
    gone = [_left_behind(scratch / "gone" / str(number), 900_000 + number) for number in range(JOBS)]
    rows: list[Row] = []
    with Login(lab) as login:
        login.run("true")
        for what, asked, state in (("waiting", waiting, "queued"), ("forgotten, by their markers", gone, "failed")):
            before = login.calls, lab.sshd.commands()
            times = [seconds_of(partial(query_jobs, login, asked)) for _ in range(rounds)]
            counted = (login.calls - before[0]) // rounds, (lab.sshd.commands() - before[1]) // rounds
            if {job.state for job in query_jobs(login, asked).values()} != {state}:
                sys.exit(f"not all of the {what} jobs are {state}")
            rows.append((f"status of {JOBS:,} jobs, {what}", f"{statistics.median(times):.2f} s", "", True))
            rows.append(_trips(f"its round trips, {what}", {counted}, STATUS_AIM))
    lab.run("scancel", array)
    return rows


def _left_behind(folder: Path, id: int) -> SlurmJobRef:
    (folder / "status" / f"gates-{id}-0").mkdir(parents=True)
    words = "node=0 host=n1 phase=command exit_code=3 signal= rank= oom=0 received= reason= started=1 ended=2 attempt=0"
    (folder / "status" / "node-0").write_text(words.replace(" ", "\n") + "\n")
    return SlurmJobRef(str(id), str(folder))


def bench_follow(host: Host, what: str, file: Path, megabytes: int, aim: float = 0.0) -> Row:
    """A log that is followed while another process writes it, every byte compared. `aim`: megabytes per second."""
    size, digest = megabytes * 1_000_000, hashlib.sha256()
    file.touch()
    reading, writing = os.pipe()
    begin = time.perf_counter()
    if os.fork() == 0:
        os.write(writing, _write(file, size).encode())
        os._exit(0)
    offset = 0
    while offset < size:
        for piece in read_chunks(host, [str(file)], {str(file): offset}):
            digest.update(piece.content)
            offset = piece.start + len(piece.content)
    speed = offset / 1e6 / (time.perf_counter() - begin)
    same = os.read(reading, 64).decode() == digest.hexdigest()
    os.wait()
    said = f"{speed:,.0f} MB/s, {'every byte the same' if same else 'BYTES LOST'}"
    return (f"log of {megabytes:,} MB followed {what}", said, f"{aim:.0f} MB/s" if aim else "", same and speed >= aim)


def _write(file: Path, left: int) -> str:
    """Writes in pieces of many sizes, as fast as it goes; the SHA-256."""
    dice, digest = random.Random(1), hashlib.sha256()
    pool = dice.randbytes(1 << 22)
    with file.open("ab", buffering=0) as log:
        while left > 0:
            start = dice.randrange(len(pool) - (1 << 18))
            piece = pool[start : start + min(left, dice.choice((100, 4096, 65536, 1 << 18)))]
            log.write(piece)
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest()


def bench_array(lab: SlurmLab, scratch: Path, rounds: int) -> list[Row]:
    """Without SSH, as submitit works, turn by turn: one array, a directory with a configuration for each task."""
    host = LabHost(lab)
    ours, theirs = [], []
    for number in range(rounds):
        plan = slurm_plan(scratch / f"array-{number}", "", {**LATER, "array": f"0-{JOBS - 1}%4"})
        cargo = cargo_of(plan)
        texts = {**cargo.texts, **{f"members/{n}/train.yaml": f"lr: {n}\n" for n in range(JOBS)}}
        ours.append(seconds_of(partial(errands, host, plan, StagedFiles(texts, cargo.programs, cargo.bundle))))
        lab.run("scancel", f"--name={job_name(plan)}")
        found = _submitit(lab, host, scratch, number)
        if found is not None:
            theirs.append(found)
    rows = [(f"{JOBS:,} tasks as one array", f"{statistics.median(ours):.2f} s", "", True)]
    if theirs:
        ratio = statistics.median(ours) / statistics.median(theirs)
        rows.append((f"submitit's map_array, {JOBS:,} tasks", f"{statistics.median(theirs):.2f} s", "", True))
        rows.append(("ours beside it", f"{ratio:.2f} x submitit", "", True))
    return rows


def _submitit(lab: SlurmLab, host: LabHost, scratch: Path, number: int) -> float | None:
    venv = scratch / "submitit"
    if not venv.exists() and not _install(venv):
        return None
    folder = scratch / f"submitit-{number}"
    words = [f"{venv}/bin/python", "-c", SUBMITIT, str(folder), str(JOBS)]
    done = subprocess.run(words, env=host.environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"submitit: {done.stderr}")
    seconds, job = done.stdout.split()[-2:]
    lab.run("scancel", job)
    return float(seconds)


def _install(venv: Path) -> bool:
    """submitit in an environment of its own; False where it cannot be had."""
    from nemo_runspec.uv_process import find_uv

    uv = find_uv()
    made = subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(venv)], check=False)
    words = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", f"{venv}/bin/python", "submitit==1.5.4"]
    if made.returncode == 0 and subprocess.run(words, check=False).returncode == 0:
        return True
    print("submitit could not be installed and is left out", file=sys.stderr)
    return False


def main() -> int:
    """0 where every aim is met, 1 otherwise."""
    parser = argparse.ArgumentParser(description="The errands on a Slurm cluster.")
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, SlurmLab(accounting=False) as lab:
        scratch = Path(name)
        rows = bench_command(lab, scratch, options.rounds)
        rows += bench_submission(lab, scratch, options.rounds)
        rows += bench_status(lab, scratch, options.rounds)
        rows += bench_status_command(lab, scratch, options.rounds)
        rows.append(bench_follow(LabHost(lab), "here", scratch / "here.out", options.megabytes, FOLLOW_AIM))
        with Login(lab) as login:
            rows.append(bench_follow(login, "over SSH", scratch / "ssh.out", options.megabytes))
        rows += bench_array(lab, scratch, options.rounds)
    print(f"{options.rounds} rounds, {os.cpu_count()} cores, Python {sys.version.split()[0]}\n")
    print("| what | figure | aim | |\n|---|--:|--:|---|")
    for what, figure, aim, met in rows:
        print(f"| {what} | {figure} | {aim} | {('met' if met else 'MISSED') if aim else ''} |")
    return 0 if all(met for *_, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
