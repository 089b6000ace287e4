"""nemotron is killed with -9 at every step of a submission: the job is there once, and found, or it never was.

The steps are counted from the outside: every file that is made, renamed or removed in nemotron's own folders, and every
process that is started and ended there (a round trip each), is one; so are the middles of what a round trip does.
"""

from __future__ import annotations

import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from labs.slurm.fixtures import needs_slurm
from slurm_project import Cluster, holding
from waiting import until

pytestmark = needs_slurm

CANARY = "c4nary-of-a-killed-one"
AT_ONCE = 4
EVERY = 1 if os.environ.get("REQUIRE_LAB") == "full" else 3
"""Each step of a client of the full tier is its last, else each third."""

KILLER = """\
import os, signal, sys

state, at, log = os.environ.pop("KILL_STATE", ""), int(os.environ.pop("KILL_AT", -1)), os.environ.pop("KILL_LOG", "")
writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
steps = []

def is_step(event, args):
    if event == "open":
        return isinstance(args[0], str) and args[0].startswith(state) and args[2] & writes
    if event in ("os.mkdir", "os.rename"):
        return str(args[0]).startswith(state)
    # A round trip begins with a process; the file of its error stream is removed once its answer has been read.
    return event == "subprocess.Popen" or (event == "os.remove" and "/nemotron-" in str(args[0]))

def watch(event, args):
    if not is_step(event, args):
        return
    if len(steps) == at:
        os.kill(os.getpid(), signal.SIGKILL)
    steps.append(event)
    os.write(into, (event + " " + str(args[0]) + "\\n").encode())

if state:
    os.environ["CLIENT"] = str(os.getpid())
    into = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sys.addaudithook(watch)
"""
"""Kills the first Python that finds `KILL_AT`, which it hands on to nobody, before its n-th step."""

SHIM = """\
#!/bin/bash
# {tool}, before or after which the client is killed, once; with KILL_WAIT it goes on when it is told to.
when=$KILL_IN client=$CLIENT
unset KILL_IN CLIENT
case " $* " in *' --test-only '*) when= ;; esac
at() {{
  [ "$when" = "$1" ] && mkdir "$KILL_ONCE" 2> /dev/null || return 0
  kill -KILL "$client"
  until [ -z "$KILL_WAIT" ] || [ -e "$KILL_ONCE/go" ]; do sleep 0.05; done
}}
at "before {tool}"
{real} "$@"
code=$?
at "after {tool}"
exit $code
"""
TOOLS = ("tar", "mv", "sbatch")


@pytest.fixture
def deadly(cluster: Cluster, tmp_path: Path) -> Cluster:
    """The cluster, where a nemotron can be told when to die; what it asks NeMo-Run about has been asked before."""
    profile = '[safe]\nextends = "here"\nsecrets = ["SECRET_CANARY"]\n'
    cluster.project.write("env.toml", cluster.project.env_file.read_text() + profile)
    (cluster.project.state / "jobs").mkdir()  # only the first submission of all makes it
    tools = tmp_path / "deadly"
    tools.mkdir()
    (tools / "sitecustomize.py").write_text(KILLER)
    for tool in TOOLS:
        (tools / tool).write_text(SHIM.format(tool=tool, real=shutil.which(tool)))
        (tools / tool).chmod(0o755)
    cluster.project.extra["PYTHONPATH"] = str(tools)
    cluster.project.extra["PATH"] = f"{tools}:{cluster.project.extra['PATH']}"
    return cluster


def submission(cluster: Cluster, name: str, *, at: int = -1, within: str = "", wait: str = "") -> int:
    """Submits a job whose name begins so, and is killed; the exit code, -9 where it was."""
    log = steps_of(cluster, name)
    deadly = {
        "KILL_STATE": str(cluster.project.state / "jobs"),
        "KILL_AT": str(at),
        "KILL_LOG": str(log),
        "KILL_IN": within,
        "KILL_ONCE": str(log.with_suffix(".once")),
        "KILL_WAIT": wait,
        "SECRET_CANARY": CANARY,
    }
    script = cluster.script("import os; print('ran', len(os.environ['SECRET_CANARY']))", name)
    return cluster.nemotron("run", script, "--batch", "safe", **deadly).code


def steps_of(cluster: Cluster, name: str) -> Path:
    return cluster.project.home / f"{name}.steps"


def what_became(cluster: Cluster, name: str) -> str:
    """What the next nemotron makes of a submission: `absent`, `never`, or `there`; fails where that is not so."""
    records = [path.name for path in (cluster.project.state / "jobs").glob(f"{name}-*")]
    if not records:
        assert cluster.queued(f"{name}-") == [], "a job that nobody has written down"
        return "absent"
    (job,) = records
    waited = cluster.nemotron("jobs", "wait", job, "--timeout", "120")
    record = cluster.show(job)
    queued = until(lambda: cluster.queued(f"{name}-"), "the end of its last process", are_complete)
    if not queued:
        assert (waited.code, record["state"]) == (1, "failed"), (waited, record)
        assert "never submitted" in record["cause"]
        return "never"
    assert (waited.code, record["state"]) == (0, "succeeded"), (waited, record)
    assert queued == [[record["handle"]["id"], job, "COMPLETED"]]
    assert cluster.logs(job) == [f"ran {len(CANARY)}"]
    return "there"


def are_complete(queued: list[list[str]]) -> bool:
    """A job that is over may be seen while Slurm still puts its node away."""
    return not any(state == "COMPLETING" for *_, state in queued)


def test_at_every_step(deadly):
    """A client that dies before its n-th step: exactly one job or none, and the next nemotron knows."""
    assert submission(deadly, "whole") == 0
    steps = steps_of(deadly, "whole").read_text().splitlines()
    assert sum(step.startswith("subprocess.Popen bash") for step in steps) in range(3, 7)
    assert sum("record.json" in step and step.startswith("os.rename") for step in steps) >= 4

    def die(number: int) -> str:
        assert submission(deadly, f"step{number}", at=number) == -signal.SIGKILL
        return what_became(deadly, f"step{number}")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        became = list(pool.map(die, range(0, len(steps), EVERY)))
    assert submission(deadly, "last", at=len(steps)) == 0, "the number of steps is not what it was"
    assert {what_became(deadly, "whole"), what_became(deadly, "last")} == {"there"}
    # Before the record there is nothing, then nothing was submitted, and from sbatch's answer on the job is there.
    assert became == sorted(became, key=["absent", "never", "there"].index)
    assert set(became) == {"absent", "never", "there"}
    assert_nothing_left(deadly)


@pytest.mark.parametrize("tool", TOOLS)
def test_within_a_round_trip(deadly, tool):
    """A client that dies while its errand runs on the cluster, before and after it does something there."""
    for moment in ("before", "after"):
        assert submission(deadly, f"{moment}-{tool}", within=f"{moment} {tool}") == -signal.SIGKILL
        became = what_became(deadly, f"{moment}-{tool}")
        assert became == ("there" if tool == "sbatch" else "never")
    assert_nothing_left(deadly)


def test_while_the_controller_hangs(deadly):
    """Killed while slurmctld hangs with the submission in hand: not known as long as it hangs, then there once."""
    with ThreadPoolExecutor(1) as pool:
        dying = pool.submit(submission, deadly, "hung", within="before sbatch", wait="yes")
        once = steps_of(deadly, "hung").with_suffix(".once")
        until(once.exists, "sbatch")
        deadly.lab.freeze("slurmctld")
        (once / "go").touch()
        assert dying.result() == -signal.SIGKILL
    (job,) = [path.name for path in (deadly.project.state / "jobs").glob("hung-*")]
    told = deadly.nemotron("jobs", "status", job)
    assert told.code == 3, told.err
    assert "does not answer" in told.err
    assert deadly.show(job)["state"] not in ("failed", "succeeded", "lost")
    deadly.lab.thaw("slurmctld")
    assert what_became(deadly, "hung") in ("there", "never")
    assert_nothing_left(deadly)


def assert_nothing_left(cluster: Cluster) -> None:
    """No secret, and nothing half-written on the cluster; what is half-written here goes after an hour."""
    assert holding(cluster.project.state, CANARY) == []
    assert list((cluster.project.state / "run" / "jobs").glob(".*")) == []
