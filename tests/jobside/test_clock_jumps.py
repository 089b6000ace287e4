"""Jobs in whose midst the clock of the day is set: by a day, on or back. No wait may become longer or shorter by it."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import time
from importlib.resources import files
from pathlib import Path

import pytest
from job_scripts import lay_out, plan_for, start_script
from jobside.test_languages import pythons
from waiting import line_of, until

from nemo_runspec.backends.local import processes
from nemo_runspec.plans.target import Target
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import cause, deciding_marker, read_markers

DAY = 86_400
LOOKS = 3.0
"""Seconds in which all that looks at a clock does so a few times."""

WAITS = 'import os, time\nprint("begun", flush=True)\nwhile not os.path.exists("go"): time.sleep(0.05)\n'


@dataclasses.dataclass(frozen=True)
class Watched(Target):
    stall_timeout: int = 15


class Clock:
    """The clock of a job's processes.

    Args:
        variables: what they are started with.
    """

    def __init__(self, library: Path, ahead: Path) -> None:
        self._ahead = ahead
        self.variables = {"LD_PRELOAD": str(library), "CLOCK_AHEAD": str(ahead)}

    def jump(self, seconds: int) -> None:
        """Is set: all read it so from now on."""
        draft = self._ahead.with_suffix(".tmp")
        draft.write_text(str(seconds), encoding="utf-8")
        draft.replace(self._ahead)


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc: bash .ci/lab")
    library = tmp_path / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return Clock(library, tmp_path / "ahead")


def record_of(plan):
    found = deciding_marker(read_markers(Path(JobLayout(plan.job_dir).status)))
    assert found is not None
    return found


def test_it_is_the_clock_of_all_that_runs_there(tmp_path: Path, clock: Clock):
    """Else the tests below would show nothing."""
    plan = plan_for(tmp_path, cmd='echo "$EPOCHSECONDS"; python -c "import time; print(int(time.time()))"; date +%s')
    clock.jump(DAY)
    process = start_script(lay_out(plan), tmp_path, **clock.variables)
    output, _ = process.communicate(timeout=120)
    seen = [int(line.split()[-1]) for line in output.splitlines()]
    assert len(seen) == 3 and all(time.time() < second < time.time() + 2 * DAY for second in seen)
    assert record_of(plan).ended > time.time()


@pytest.mark.parametrize("days", [1, -1])
def test_its_record_has_the_time_that_the_clock_says(tmp_path: Path, clock: Clock, days: int):
    """However that may be set, the job's end is its command's."""
    plan = plan_for(tmp_path, WAITS + "raise SystemExit(3)")
    process = start_script(lay_out(plan), tmp_path, **clock.variables)
    line_of(process.stdout)
    clock.jump(days * DAY)
    (tmp_path / "go").touch()
    process.communicate(timeout=120)
    record = record_of(plan)
    assert (process.returncode, record.exit_code, record.phase) == (3, 3, "command")
    assert (record.ended - record.started > DAY / 2) == (days > 0)


def test_no_wait_is_by_a_clock_that_may_be_set():
    """That one is asked for what a record says alone. Locks and events are waited for by `clock.within`."""
    sources = Path(str(files("nemo_runspec"))) / "jobside"
    lines = [line.strip() for path in sources.rglob("*.py") for line in path.read_text().splitlines()]
    asked = [line for line in lines if "time.time()" in line]
    assert asked
    kept = re.compile(
        r"""(self\.started|\(?"?(ended|started)\b|self\._known\["at"\] = |known\.update\(|tables, since = )"""
        r"""|(code, reason, )?when = """
    )
    assert [line for line in asked if not kept.match(line)] == []
    waits = re.compile(r"threading\.(Timer|Event|Condition)\(|acquire\((True|timeout)|(thread|word)\.join\(")
    assert [line for line in lines if waits.search(line)] == []


def watched(top: Path, script: str, seconds: int):
    return dataclasses.replace(plan_for(top, script, executor="slurm"), target=Watched(seconds))


def start_watched(plan, top: Path, clock: Clock) -> subprocess.Popen[str]:
    """As Slurm starts it, its log where the watch for stalls looks."""
    layout = lay_out(plan)
    with (Path(layout.root) / "log-name_7_0.out").open("w") as log:
        return subprocess.Popen(
            ["bash", layout.job_script], cwd=top, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, "SLURM_JOB_ID": "7", **clock.variables}, start_new_session=True,
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("days", [1, -1])
def test_a_jump_is_no_stall(tmp_path: Path, clock: Clock, days: int):
    plan = watched(tmp_path, WAITS, 15)
    process = start_watched(plan, tmp_path, clock)
    log = Path(plan.job_dir) / "log-name_7_0.out"
    until(lambda: "begun" in log.read_text(), "its begin")
    clock.jump(days * DAY)
    time.sleep(LOOKS)
    (tmp_path / "go").touch()
    assert process.wait(120) == 0, log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("days", [1, -1])
def test_a_stall_is_one_whatever_the_clock_says(tmp_path: Path, clock: Clock, days: int):
    plan = watched(tmp_path, WAITS, 3)
    process = start_watched(plan, tmp_path, clock)
    log = Path(plan.job_dir) / "log-name_7_0.out"
    until(lambda: "begun" in log.read_text(), "its begin")
    clock.jump(days * DAY)
    assert process.wait(120) == 124, log.read_text()
    assert cause(record_of(plan)) == "no progress for 3 s (stall_timeout), exit code 124"


def start_node(plan, node: int, top: Path, clock: Clock, seconds: int) -> subprocess.Popen[str]:
    told = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}
    return start_script(
        lay_out(plan), top, NEMOTRON_BARRIER_SECONDS=str(seconds), SLURM_NODEID=str(node), SLURM_PROCID=str(node),
        **told, **clock.variables,
    )  # fmt: skip


def test_a_node_that_waits_for_another_does_not_give_up(tmp_path: Path, clock: Clock):
    plan = plan_for(tmp_path, executor="slurm", nodes=2)
    first = start_node(plan, 0, tmp_path, clock, 100)
    status = Path(JobLayout(plan.job_dir).status)
    until(lambda: list(status.glob("gates-*/met.0")), "the first node at the barrier")
    clock.jump(DAY)
    time.sleep(LOOKS)
    second = start_node(plan, 1, tmp_path, clock, 100)
    ended = [process.communicate(timeout=120)[0] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), ended


def test_it_gives_up_in_time_though_the_clock_goes_back(tmp_path: Path, clock: Clock):
    plan = plan_for(tmp_path, executor="slurm", nodes=2)
    process = start_node(plan, 0, tmp_path, clock, 4)
    status = Path(JobLayout(plan.job_dir).status)
    until(lambda: list(status.glob("gates-*/met.0")), "the first node at the barrier")
    clock.jump(-DAY)
    process.communicate(timeout=120)
    assert process.returncode == 1
    assert "task 1 of 2 did not reach 'met' within 4 s" in record_of(plan).reason


HEARS = """
import os, signal, time
print("begun", flush=True)
while not os.path.exists("go"): time.sleep(0.05)
heard = []
signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
while not heard: time.sleep(0.05)
raise SystemExit(7)
"""


def test_a_signal_waits_for_a_program_that_starts(tmp_path: Path, clock: Clock):
    """A minute at most: sent at once it would end the program."""
    plan = plan_for(tmp_path, HEARS)
    process = start_script(lay_out(plan), tmp_path, **clock.variables)
    line_of(process.stdout)
    process.send_signal(signal.SIGUSR1)
    time.sleep(LOOKS)
    clock.jump(DAY)
    time.sleep(LOOKS)
    (tmp_path / "go").touch()
    process.communicate(timeout=120)
    assert process.returncode == 7


LEAVES = WAITS + 'import subprocess\nprint("no end", end="", flush=True)\nsubprocess.Popen(["sleep", "300"])\n'


@pytest.mark.parametrize("at", ["oldest", "newest"])
def test_what_a_command_leaves_behind_holds_nobody_for_a_day(tmp_path: Path, clock: Clock, at: str):
    """Python up to 3.9 waits for a lock until a time of the clock that is set: here it is a day until then."""
    plan = plan_for(tmp_path, LEAVES)
    clock.jump(DAY)
    (tmp_path / "go").touch()
    python = pythons()[0 if at == "oldest" else -1][1]
    process = start_script(lay_out(plan), tmp_path, NEMOTRON_PYTHON=python, **clock.variables)
    try:
        assert process.wait(60) == 0
    finally:
        processes.kill_all(plan.job_dir, process.pid)
    assert record_of(plan).lines == 2
