"""Whether the kernel has killed something of a job for want of memory, as control groups count it; really killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from job_scripts import environment, lay_out, plan_for
from waiting import until

from nemo_runspec.jobside.memory import OomKills
from nemo_runspec.plans.model import Plan
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import NodeMarker, cause, deciding_marker, read_markers

MOST = 100 << 20
TAKES = f"kept = b'x' * {3 * MOST}"

GROUPS = Path("/sys/fs/cgroup")
VERSION_1 = GROUPS / "memory"
needs_groups = pytest.mark.lab("control groups", how="as root, with REQUIRE_LAB=1 uv run --group dev pytest")


@pytest.fixture
def group() -> Iterator[Callable[[], Path]]:
    """Makes control groups of `MOST` bytes of memory, without swap."""
    made: list[Path] = []

    def make() -> Path:
        path = (VERSION_1 if VERSION_1.is_dir() else GROUPS) / f"nemotron-test-{len(made)}-{id(made)}"
        path.mkdir()
        made.append(path)
        limits = ("memory.limit_in_bytes",) if VERSION_1.is_dir() else ("memory.max", "memory.swap.max")
        for name, limit in zip(limits, (MOST, 0), strict=False):
            (path / name).write_text(str(limit))
        return path

    yield make
    for path in made:
        until(lambda path=path: not (path / "cgroup.procs").read_text(), "its emptiness")
        path.rmdir()


def run(plan: Plan, group: Path) -> NodeMarker:
    """Runs a job script as a process of a group; its record."""
    words = ["bash", "-c", 'echo $$ > "$0"/cgroup.procs; exec bash "$1"', str(group), lay_out(plan).job_script]
    subprocess.run(words, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    found = deciding_marker(read_markers(Path(JobLayout(plan.job_dir).status)))
    assert found is not None
    return found


@needs_groups
def test_a_command_that_takes_more_than_there_is(tmp_path: Path, group):
    record = run(plan_for(tmp_path, TAKES), group())
    assert (record.exit_code, record.signal, record.oom) == (137, signal.SIGKILL, True)
    assert cause(record) == "the command was killed by the kernel: out of memory"


@needs_groups
def test_one_of_its_processes_alone(tmp_path: Path, group):
    """The command goes on, and fails by itself."""
    script = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {TAKES!r}])\nraise SystemExit(3)"
    record = run(plan_for(tmp_path, script), group())
    assert (record.exit_code, record.signal, record.oom) == (3, None, True)
    assert "out of memory" in cause(record)


@needs_groups
def test_what_was_killed_before_the_job_is_none_of_its(tmp_path: Path, group):
    own = group()
    first = run(plan_for(tmp_path / "a", TAKES), own)
    then = run(plan_for(tmp_path / "b", "import os; os.kill(os.getpid(), 9)"), own)
    assert (first.oom, then.exit_code, then.oom) == (True, 137, False)


@needs_groups
def test_startup_commands_that_go_into_another_group_take_the_job_along(tmp_path: Path, group):
    other = group()
    plan = plan_for(tmp_path, TAKES, setup=(f"echo $$ > {other}/cgroup.procs",))
    assert run(plan, group()).oom


def test_without_a_group_there_are_none():
    kills = OomKills()
    assert not kills.any
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with suppress(ProcessLookupError):
        kills.follow(ended.pid)
    assert not kills.any
