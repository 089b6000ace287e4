"""What the supervisor costs where a job runs: a rank's start, its output, memory, and the records of 10,000 ranks.

    uv run python benchmarks/jobside.py                    # prints a table, exit code 1 where an aim is missed
    uv run python benchmarks/jobside.py --gigabytes 5

Whole job scripts are run, and beside each the bare command in turn; medians of their differences, and the least, as
machines are shared. `NEMOTRON_PYTHON` names the Python that supervises.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from job_scripts import environment, lay_out, plan_for

from nemo_runspec.jobside.barriers import Barriers
from nemo_runspec.jobside.ranks import Ranks
from nemo_runspec.jobside.records import Folder
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import read_markers

START_AIM = 60.0
"""Milliseconds more than the bare command."""

OUTPUT_AIM = 300.0
"""Megabytes per second, with lines of 100 bytes."""

MEMORY_AIM = 64.0
"""Megabytes of the supervisor at most, however much has passed."""

READ_AIM = 1.0
"""Seconds for the records of 10,000 ranks."""

RANKS = 10_000
LINE = "step 000123 | loss 2.345678 | lr 0.00012345 | grad norm 0.987 | 12345 tokens/s | 45.6 GB | eta 1:23"
assert len(LINE) == 99

Row = tuple[str, str, str, bool]
"""What was done, the figure, the aim, whether it is met."""


@dataclass(frozen=True)
class Start:
    """Milliseconds until a command says that it begins, until its process has ended, and of processor time."""

    begin: float
    whole: float
    processor: float

    def __sub__(self, other: Start) -> Start:
        return Start(self.begin - other.begin, self.whole - other.whole, self.processor - other.processor)


def started(words: list[str], env: dict[str, str]) -> Start:
    busy, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    ended, after = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - busy.ru_utime - busy.ru_stime
    return Start(1e3 * (float(done.stdout.split()[-1]) - began), 1e3 * (ended - began), 1e3 * processor)


def start(top: Path, rounds: int) -> list[Row]:
    """A rank whose command says when it begins, and the same from bash alone, in turn; and an empty Python's start."""
    tell = 'printf "%s\\n" "$EPOCHREALTIME"'
    layout, env = lay_out(plan_for(top, cmd=tell)), kept_environment()
    bare, more = ["bash", "-c", tell], ["bash", layout.job_script]
    python = [env.get("NEMOTRON_PYTHON", "python3"), "-I", "-S", "-c", "import time; print(time.time())"]
    turns = [[started(words, env) for words in (bare, more, python)] for _ in range(rounds + 1)][1:]
    found = [supervised - alone for alone, supervised, _ in turns]
    figures = [
        ("until a rank's command begins, more than without", [one.begin for one in found], START_AIM),
        ("until a rank has ended and is recorded, more than without", [one.whole for one in found], None),
        ("processor time of all that, more than without", [one.processor for one in found], None),
        ("an empty Python beside it", [empty.whole for *_, empty in turns], None),
        ("processor time of that", [empty.processor for *_, empty in turns], None),
    ]
    return [
        (what, f"{statistics.median(all_of):.0f} ms, best {min(all_of):.0f}", f"{aim:.0f} ms" if aim else "",
         aim is None or statistics.median(all_of) <= aim)
        for what, all_of, aim in figures
    ]  # fmt: skip


def output(top: Path, gigabytes: float, secrets: int = 0) -> list[Row]:
    """Lines of 100 bytes through a rank into a pipe that `cat` empties, and the supervisor's peak of memory.

    Args:
        secrets: how many values are looked for in it, in all their forms.
    """
    times = round(gigabytes * 10)
    size = times * 10**8
    top.mkdir()
    block = top / "block"
    block.write_text((LINE + "\n") * 10**6)
    layout = lay_out(plan_for(top, cmd=f"for _ in {{1..{times}}}; do cat {block}; done"))
    values = {f"SECRET_{number}": f"hf_{number}kQzWvYbNcJpLmRtXsDfGhAeUiOv" for number in range(secrets)}
    script = Path(layout.job_script)
    script.write_text(script.read_text().replace("nemotron_hidden=''", f"nemotron_hidden='{' '.join(values)}'"))
    began = time.perf_counter()
    job = subprocess.Popen(["bash", script], env={**kept_environment(), **values}, stdout=subprocess.PIPE)
    reader = subprocess.Popen(["cat"], stdin=job.stdout, stdout=subprocess.DEVNULL)
    assert job.stdout is not None
    job.stdout.close()
    peak = busy = 0.0
    while job.poll() is None:
        peak, busy = max(peak, memory_of(job.pid)), max(busy, processor_of(job.pid))
        time.sleep(0.02)
    reader.wait()
    speed = size / 1e6 / (time.perf_counter() - began)
    (record,) = read_markers(Path(layout.status))
    assert record.exit_code == 0 and record.lines == times * 10**6, record
    what = f"{gigabytes:g} GB of lines of 100 bytes" + (f", {secrets} secrets to be hidden" if secrets else "")
    return [
        (what, f"{speed:.0f} MB/s", f"{OUTPUT_AIM:.0f} MB/s", speed >= OUTPUT_AIM),
        ("the same by the supervisor's processor time", f"{size / 1e6 / busy:.0f} MB/s", "", True),
        ("the supervisor's memory meanwhile", f"{peak:.0f} MB", f"{MEMORY_AIM:.0f} MB", peak <= MEMORY_AIM),
    ]


def memory_of(pid: int) -> float:
    """Megabytes that a process holds now."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    except (OSError, IndexError):
        return 0.0


def processor_of(pid: int) -> float:
    """Seconds of processor time that a process has taken."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def records(top: Path) -> list[Row]:
    """What nodes and ranks of a job of 10,000 have left, read by nemotron and by a supervisor."""
    layout = JobLayout(str(top))
    top.mkdir()
    status = Folder(layout.status)
    status.make()
    node = {"host": "n", "phase": "command", "exit_code": 0, "reason": "", "started": 1.5, "ended": 2.5}
    for number in range(RANKS):
        given = {"rank": number, "exit_code": 0, "lines": 3, "size": 70}
        Path(status.file(f"node-{number}")).write_text(json.dumps({"node": number, **node}), encoding="utf-8")
        Path(status.file(f"rank-{number}")).write_text(json.dumps(given), encoding="utf-8")
        Path(status.file(f"met.{number}")).touch()
    barriers = Barriers(status.path, 0, RANKS, 60)
    ranks = Ranks(status, status, 0, RANKS)
    rows = {
        "10,000 nodes' records read": lambda: len(read_markers(Path(status.path))) == RANKS,
        "10,000 ranks' records summed": lambda: ranks.given()["lines"] == 3 * RANKS,
        "10,000 ranks' records looked through for a failure": lambda: ranks.first_failure() is None,
        "a barrier of 10,000 that have come": lambda: barriers.reach("met", time.sleep) is None,
    }
    return [timed(what, done) for what, done in rows.items()]


def timed(what: str, done: Callable[[], bool]) -> Row:
    began = time.perf_counter()
    assert done()
    found = time.perf_counter() - began
    return what, f"{found:.2f} s", f"{READ_AIM:.2f} s", found <= READ_AIM


def kept_environment() -> dict[str, str]:
    """That of a job, with the Python that was asked for."""
    python = os.environ.get("NEMOTRON_PYTHON", "")
    return environment(**({"NEMOTRON_PYTHON": python} if python else {}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=31)
    given = parser.parse_args()
    top = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        rows = [
            *start(top / "a", given.rounds),
            *output(top / "b", given.gigabytes),
            *output(top / "c", given.gigabytes, secrets=3),
            *records(top / "d"),
        ]
    finally:
        shutil.rmtree(top)
    print("| what | figure | aim | |\n|---|--:|--:|---|")
    for what, figure, aim, met in rows:
        print(f"| {what} | {figure} | {aim} | {'met' if met else '**missed**'} |")
    return 0 if all(row[-1] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
