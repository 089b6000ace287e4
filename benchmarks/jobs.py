"""`nemotron jobs list` with 10,000 records, and `jobs logs -f` beside a job that writes as fast as it can.

    uv run python benchmarks/jobs.py                 # prints a table, exit code 1 where an aim is missed
    uv run python benchmarks/jobs.py --megabytes 200

Whole processes are timed. The log is followed into a pipe and into a file while another process writes it, and what
comes out is compared with what was written, byte by byte through SHA-256.
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
from datetime import datetime, timedelta, timezone
from pathlib import Path

from nemo_runspec.records import JobRecord, JobStore, Transition
from nemo_runspec.records.codec import to_json
from nemo_runspec.records.process import this_process

NEMOTRON = [sys.executable, "-m", "nemotron", "jobs"]
LIST_AIM = 0.6
"""Seconds for the whole process."""

FOLLOW_AIM = 100.0
"""Megabytes per second."""

PIECE = 1 << 18
ENDS = ("succeeded", "succeeded", "succeeded", "failed", "cancelled", "lost")

Row = tuple[str, str, str, bool]
"""What was done, the figure, the aim, whether it is met."""


def record(number: int, states: tuple[str, ...], *, age: float = 0.0) -> JobRecord:
    """A record as a finished job leaves it."""
    began = datetime.now(timezone.utc) - timedelta(seconds=age)
    return JobRecord(
        name=f"nano3-pretrain-1120-{number:08x}",
        recipe="nano3/pretrain",
        config="tiny",
        profile="my-cluster",
        executor="local",
        mode="run",
        argv=("nemotron", "nano3", "pretrain", "-c", "tiny", "--run", "my-cluster", "train.lr=1e-3"),
        cwd="/home/somebody/project",
        user="somebody",
        host="login-1",
        commit="0123456789abcdef0123456789abcdef01234567",
        states=tuple(
            Transition(state, (began + timedelta(seconds=n)).isoformat(timespec="milliseconds"))
            for n, state in enumerate(states)
        ),
        exit_code=0,
        elapsed=61.5,
        launcher=this_process(),
        process=this_process(),
        overrides=("train.lr=1e-3",),
        package={"kind": "git", "digest": "d" * 40, "commit": "c" * 40, "root": "/home/somebody/project"},
        metrics={"loss": 1.52, "val_loss": 1.71, "tokens_per_second": 31250.0},
    )


def fill(store: JobStore, count: int) -> None:
    """Puts that many finished jobs into the store."""
    dice = random.Random(1)
    for number in range(count):
        made = record(number, ("planned", "starting", "running", dice.choice(ENDS)), age=600.0 * (count - number))
        folder = store.folder(made.name)
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(to_json(made), encoding="utf-8")


def timed(words: list[str], environment: dict[str, str]) -> float:
    """Seconds one command takes."""
    start = time.perf_counter()
    subprocess.run(
        [*NEMOTRON, *words], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - start


def bench_list(home: Path, environment: dict[str, str], count: int, rounds: int) -> list[Row]:
    """The list with and without its index, and everything as JSON."""
    index = home / "jobs-index-1.jsonl"
    fill(JobStore(home / "jobs"), count)

    def median(words: list[str], before: Callable[[], None] = lambda: None) -> float:
        times = []
        for _ in range(rounds + 1):
            before()
            times.append(timed(words, environment))
        return statistics.median(times[1:])

    figures = [
        (f"jobs list, {count:,} records", median(["list"]), LIST_AIM),
        ("the same without its index", median(["list"], lambda: index.unlink(missing_ok=True)), None),
        ("jobs list --state failed --since 7d", median(["list", "--state", "failed", "--since", "7d"]), LIST_AIM),
        ("jobs show last", median(["show", "last"]), LIST_AIM),
        ("jobs list --json, every record read", median(["list", "--json"]), None),
        ("jobs --help, for comparison", median(["--help"]), None),
    ]
    return [(name, f"{s:.3f} s", f"{aim:.1f} s" if aim else "", not aim or s <= aim) for name, s, aim in figures]


def write_log(store: JobStore, made: JobRecord, megabytes: int) -> str:
    """Writes the job's log as fast as it goes, in pieces of many sizes, then ends the job. Returns the SHA-256."""
    dice = random.Random(2)
    pool = dice.randbytes(1 << 22)
    digest, left = hashlib.sha256(), megabytes * 1_000_000
    with (store.folder(made.name) / "logs" / "job.log").open("ab", buffering=0) as log:
        while left > 0:
            start = dice.randrange(len(pool) - PIECE)
            piece = pool[start : start + min(left, dice.choice((100, 4096, 65536, PIECE)))]
            log.write(piece)
            digest.update(piece)
            left -= len(piece)
    store.finish(made, "succeeded", exit_code=0)
    return digest.hexdigest()


def follow(store: JobStore, number: int, environment: dict[str, str], megabytes: int, target: Path | None) -> Row:
    """One job whose log is followed while it is written, into a file or, without one, a pipe."""
    made = record(number, ("planned", "starting", "running"))
    (store.folder(made.name) / "logs").mkdir(parents=True)
    (store.folder(made.name) / "logs" / "job.log").touch()
    (store.folder(made.name) / "record.json").write_text(to_json(made), encoding="utf-8")
    out = target.open("wb") if target else subprocess.PIPE
    follower = subprocess.Popen(
        [*NEMOTRON, "logs", "-f", made.name], env=environment, stdout=out, stderr=subprocess.PIPE
    )
    time.sleep(0.5)  # it is there and waits: its start is not what is measured
    start = time.perf_counter()
    reading, writing = os.pipe()
    writer = os.fork()
    if writer == 0:
        os.write(writing, write_log(store, made, megabytes).encode())
        os._exit(0)
    digest = hashlib.sha256()
    while follower.stdout and (piece := os.read(follower.stdout.fileno(), 1 << 20)):
        digest.update(piece)
    follower.wait()
    seconds = time.perf_counter() - start
    os.waitpid(writer, 0)
    if target:
        with target.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    same = os.read(reading, 64).decode() == digest.hexdigest()
    speed = megabytes / seconds
    name = f"jobs logs -f of {megabytes:,} MB into a {'file' if target else 'pipe'}, written meanwhile"
    said = f"{speed:,.0f} MB/s, {'every byte the same' if same else 'BYTES LOST'}"
    return (name, said, f"{FOLLOW_AIM:.0f} MB/s", same and speed >= FOLLOW_AIM)


def main() -> int:
    """0 where every aim is met, 1 otherwise."""
    parser = argparse.ArgumentParser(description="Lists of jobs, and logs that are followed.")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        environment = {**os.environ, "NEMOTRON_HOME": str(home), "COLUMNS": "100"}
        rows = bench_list(home, environment, options.records, options.rounds)
        store = JobStore(home / "jobs")
        rows.append(follow(store, options.records, environment, options.megabytes, None))
        rows.append(follow(store, options.records + 1, environment, options.megabytes, Path(scratch) / "copy"))
    print(f"{options.rounds} rounds after one to warm up, {os.cpu_count()} cores, Python {sys.version.split()[0]}\n")
    print("| what | figure | aim | |\n|---|--:|--:|---|")
    for name, figure, aim, met in rows:
        print(f"| {name} | {figure} | {aim} | {('met' if met else 'MISSED') if aim else ''} |")
    return 0 if all(met for *_, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
