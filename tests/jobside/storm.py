"""Signals at random moments of a job: what was told to it must be in what its command has counted, or in its record.

One moment is one job, really run; a seed gives the same signals at the same delays again. By hand, from `tests`:
`uv run --group dev python -m jobside.storm 2000`, which prints the seeds of those that failed.

What nobody can hear, and what these moments leave out: a signal that comes before `bash` itself has been started where
nobody has blocked it first (`nemotron`'s own worker has), and one of a kind that waits already, as a process has one of
each (man 7 signal). A stop that finds a command which has no handler for it yet ends it, as it would any program. One
thing is Python's own: while it starts, INT is an exception, and may be lost where what it imports catches that. Of 489
that a bare `python` under a bare `bash` was sent before its first line, 384 ended it with 130, 101 with 1, 3 were lost.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from job_scripts import environment, lay_out, plan_for
from signal_moments import SIGNALS, STOPS, Moment
from waiting import until

from nemo_runspec.backends.local import processes
from nemo_runspec.plans.model import Plan
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import NodeMarker, read_markers

WAYS = ("program", "line", "torchrun")

COUNTING = """
import os, signal, sys, time
seen = os.open(os.environ["COUNTED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def say(word): os.write(seen, (word + "\\n").encode())
for name in ("TERM", "INT", "USR1", "HUP"):
    signal.signal(getattr(signal, "SIG" + name), lambda number, _, name=name: say(name))
say("begun")
print("begun")
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.01)
print("ended", flush=True)
say("ended")
os._exit(0)  # Python takes its handlers away before it ends
"""


@dataclass(frozen=True)
class ScriptMoment(Moment):
    """Signals to one job script; `times` are seconds before each.

    Args:
        way: how the command is started.
        whole: whether the process group of the job script is told, as by a terminal, or its process alone.
    """

    way: str = "program"
    whole: bool = False


def moment(seed: int, way: str = "program") -> ScriptMoment:
    """The moment of a seed."""
    dice = random.Random(seed)
    names = tuple(dice.sample(SIGNALS, dice.choice((1, 2))))
    late = dice.random() < 0.25
    most = 0.08 if late else 5.0 if way == "torchrun" else 0.25
    delays = tuple(dice.uniform(0, most) for _ in names)
    return ScriptMoment(seed, names, delays, late, way, dice.random() < 0.3)


def plan_of(case: ScriptMoment, top: Path) -> Plan:
    """A job whose command counts its signals until a file is there."""
    variables = {"COUNTED": str(top / "counted"), "GO": str(top / "go")}
    if case.way == "line":
        return plan_for(top, COUNTING, env=variables, cmd="python {script}")
    return plan_for(top, COUNTING, env=variables, launch="torchrun" if case.way == "torchrun" else "direct")


def counted(top: Path) -> list[str]:
    """What the command has written down so far."""
    try:
        return (top / "counted").read_text(encoding="utf-8").split()
    except OSError:
        return []


def run(case: ScriptMoment, top: Path, path: str = "") -> list[str]:
    """Runs one job through its moment; what is wrong, nothing where all is well."""
    plan = plan_of(case, top)
    layout = lay_out(plan)
    given = environment(**({"PATH": f"{path}:{os.environ['PATH']}"} if path else {}))
    process = processes.start(plan.job_dir, ["bash", layout.job_script], given, top)
    try:
        unheard: set[str] = set()
        output = _through(case, process, top, unheard)
        left = _left(plan, process)
    finally:
        processes.kill_all(plan.job_dir, process.pid)
    problems = [*_wrong(case, plan, process.returncode, counted(top), unheard), *left]
    return [f"{problem}\n{case}\n{counted(top)}\n{output}" for problem in problems]


def _through(case: ScriptMoment, process: subprocess.Popen[bytes], top: Path, unheard: set[str]) -> str:
    """Its output. `unheard` gets the signals that may be lost."""
    if case.late:
        until(lambda: "begun" in counted(top) or process.poll() is not None, "its begin")
        (top / "go").touch()
    for name, delay in zip(case.words, case.times, strict=True):
        time.sleep(delay)
        if name == "INT" and "begun" not in counted(top):
            unheard.add(name)
        _tell(process, getattr(signal, f"SIG{name}"), case.whole)
    until(lambda: case.late or process.poll() is not None or _has_heard(case, top, unheard), f"the signals of {case}")
    (top / "go").touch()
    return process.communicate(timeout=120)[0].decode(errors="replace")


def _tell(process: subprocess.Popen[bytes], number: int, whole: bool) -> None:
    if process.poll() is None:
        (os.killpg if whole else os.kill)(process.pid, number)


def _has_heard(case: ScriptMoment, top: Path, unheard: set[str]) -> bool:
    seen = counted(top)
    return "begun" in seen and all(name in seen for name in case.words if name not in unheard)


def _left(plan: Plan, process: subprocess.Popen[bytes]) -> list[str]:
    """Processes that outlive the job script, and drafts of records. Its own children may be just ending."""
    end = time.monotonic() + 10
    while (left := processes.members(plan.job_dir, process.pid)) and time.monotonic() < end:
        time.sleep(0.02)
    drafts = [path.name for path in Path(JobLayout(plan.job_dir).status).glob("**/*.tmp")]
    spare = [path.name for path in Path(JobLayout(plan.job_dir).status).glob("spare*")]
    return [f"left: {what}" for what in (left, drafts, spare) if what]


def _wrong(case: ScriptMoment, plan: Plan, status: int, seen: list[str], unheard: set[str]) -> Iterator[str]:
    """What a job tells wrongly of its end."""
    records = read_markers(Path(JobLayout(plan.job_dir).status))
    if len(records) != 1:
        yield f"{len(records)} records"
        return
    record = records[0]
    ends = Counter(seen)
    told_to_stop = record.received in STOPS and record.received in case.words
    if status != record.exit_code:
        yield f"exit status {status}, recorded {record.exit_code}"
    if any(ends[name] > 1 for name in SIGNALS):
        yield "a signal came twice"
    if any(ends[name] and name not in case.words for name in SIGNALS):
        yield "a signal came that nobody had sent"
    if "ended" in seen and record.exit_code:
        yield "a command that has ended well is recorded as failed"
    if record.exit_code == 0 and not ("begun" in seen and "ended" in seen):
        yield "a success is recorded of a command that has not run"
    if record.exit_code and not _was_stopped(record, case, seen, told_to_stop):
        yield "it has failed, though nobody has told it to stop"
    if (
        "begun" in seen
        and not case.late
        and any(not ends[name] for name in case.words if name not in unheard)
        and "ended" in seen
    ):
        yield "a signal was lost"


def _was_stopped(record: NodeMarker, case: ScriptMoment, seen: list[str], told: bool) -> bool:
    """Told to stop before its command could hear it. 1 is what Python's own start may make of INT."""
    sent = {128 + getattr(signal, f"SIG{name}") for name in case.words if name in STOPS}
    sent |= {1} if "INT" in case.words and record.phase == "command" else set()
    return told and "begun" not in seen and record.exit_code in sent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("moments", type=int)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--way", choices=WAYS, action="append", help="default: program and line in turn")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--path", default="", help="a folder with torchrun")
    given = parser.parse_args()
    ways = given.way or ["program", "line"]

    def one(seed: int) -> list[str]:
        folder = Path(tempfile.mkdtemp(prefix="storm"))
        try:
            return run(moment(seed, ways[seed % len(ways)]), folder, given.path)
        except AssertionError as error:
            return [str(error)]
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    failed = 0
    with ThreadPoolExecutor(given.at_once) as pool:
        for problems in pool.map(one, range(given.first, given.first + given.moments)):
            failed += bool(problems)
            print("\n".join(problems), end="\n" if problems else "", flush=True)
    print(f"{given.moments} moments, seeds {given.first} to {given.first + given.moments - 1}: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
