"""`jobs retry SWEEP`: only its failed runs again, in their own places."""

from __future__ import annotations

import json

import pytest
from support import HEADER, Outcome
from waiting import until

BODY = """
import json, os, pathlib, sys
rows = (row.partition(":") for row in open(sys.argv[sys.argv.index("--config") + 1]))
given = {key.strip(): value.strip() for key, _, value in rows}
broken = pathlib.Path(BROKEN).exists() and given["weak"] == "true"
pathlib.Path(os.environ["NEMOTRON_METRICS_FILE"]).write_text(json.dumps({"loss": 1.0}))
print("seed", given["seed"])
sys.exit(5 if broken else 0)
"""


@pytest.fixture
def sweep(project, nemotron_process):
    """A sweep of four runs, two of which failed."""
    broken = project.home / "broken"
    broken.touch()
    body = BODY.replace("BROKEN", repr(str(broken)))
    project.recipe("mine/train", header=HEADER, body=body, default="seed: 1\nweak: false\n")
    assert nemotron_process("mine", "train", "-m", "seed=1,2", "weak=true,false").code == 5
    (folder,) = (project.state / "sweeps").iterdir()
    return folder.name


def runs(show: Outcome) -> dict[str, list[str]]:
    """Names of a sweep's jobs by their states, in their order."""
    found: dict[str, list[str]] = {}
    for row in (row for row in show.json if row["kind"] == "job"):
        found.setdefault(row["state"], []).append(row["name"])
    return found


def counted(nemotron, sweep: str) -> dict[str, int]:
    (row,) = [row for row in nemotron("jobs", "list", "--json").json if row["name"] == sweep]
    return dict(row["runs"])


@pytest.mark.slow
def test_only_what_failed_runs_again(project, sweep, nemotron, nemotron_process):
    before = runs(nemotron("jobs", "list", "--group", sweep, "--json"))
    assert {state: len(names) for state, names in before.items()} == {"failed": 2, "succeeded": 2}
    assert nemotron_process("jobs", "retry", sweep).code == 5, "they fail again, and again they may be retried"
    (project.home / "broken").unlink()
    done = nemotron_process("jobs", "retry", sweep).succeeds()
    assert f"{sweep}: 2 runs of 4 again" in done.err
    assert "4 runs: 4 succeeded" in done.out, "at the end there is the sweep's table"
    assert counted(nemotron, sweep) == {"succeeded": 4}
    after = runs(nemotron("jobs", "list", "--group", sweep, "--json"))
    assert {state: len(names) for state, names in after.items()} == {"failed": 4, "succeeded": 4}
    assert set(before["succeeded"]) < set(after["succeeded"])
    assert "4 succeeded" in nemotron("jobs", "show", sweep).succeeds().out
    assert nemotron("jobs", "wait", sweep).code == 0
    nemotron_process("jobs", "retry", sweep).refuses(f"no run of sweep '{sweep}' has failed")


@pytest.mark.slow
def test_a_sweep_of_which_only_the_jobs_are_left(project, sweep, nemotron, nemotron_process):
    (project.home / "broken").unlink()
    (project.state / "sweeps" / sweep / "sweep.json").unlink()
    (project.state / "sweeps" / sweep).rename(project.home / "gone")
    nemotron_process("jobs", "retry", sweep).succeeds()
    after = runs(nemotron("jobs", "list", "--group", sweep, "--json"))
    assert {state: len(names) for state, names in after.items()} == {"failed": 2, "succeeded": 4}
    nemotron_process("jobs", "retry", sweep).refuses("no run of sweep")


BOUNDED = """
import os, pathlib, sys, time
folder = pathlib.Path(FOLDER)
if not (folder / "broken").exists():
    mine = folder / f"runs-{os.getpid()}"
    mine.touch()
    (folder / f"saw-{len(list(folder.glob('runs-*')))}-{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
    mine.unlink()
sys.exit(5 if (folder / "broken").exists() else 0)
"""


@pytest.fixture
def detached(project, nemotron_process):
    """A detached sweep of five runs, two at a time, all of which failed; what they do next waits for a file `go`."""
    (project.home / "broken").touch()
    project.write("env.toml", '[local]\nexecutor = "local"\nmax_parallel = 2\n')
    body = BOUNDED.replace("FOLDER", repr(str(project.home)))
    project.recipe("mine/train", header=HEADER, body=body, default="seed: 1\n")
    name = nemotron_process("mine", "train", "--batch", "local", "-m", "seed=1,2,3,4,5").succeeds().out.strip()
    assert nemotron_process("jobs", "wait", name).code == 5
    (project.home / "broken").unlink()
    return name


def two_run(project):
    until(lambda: len(list(project.home.glob("saw-*"))) == 2, "two runs at a time")


@pytest.mark.slow
def test_a_detached_sweep_is_detached_again_and_keeps_its_bound(project, detached, nemotron, nemotron_process):
    done = nemotron_process("jobs", "retry", detached).succeeds()
    assert done.out.strip() == detached
    two_run(project)
    shown = nemotron("jobs", "show", detached, "--json").json
    assert shown["state"] == "running"
    assert sum(member["state"] == "failed" for member in shown["members"]) == 3, "those not reached stay as they were"
    nemotron_process("jobs", "retry", detached).refuses("goes on")
    (project.home / "go").touch()
    assert nemotron_process("jobs", "wait", detached).code == 0
    saw = [int(file.name.split("-")[1]) for file in project.home.glob("saw-*")]
    assert (len(saw), max(saw)) == (5, 2)
    assert counted(nemotron, detached) == {"succeeded": 5}
    results = (project.state / "sweeps" / detached / "results.csv").read_text()
    assert results.count("succeeded") == 5


@pytest.mark.slow
def test_a_retry_is_cancelled_as_a_whole_and_taken_up_again(project, detached, nemotron, nemotron_process):
    nemotron_process("jobs", "retry", detached).succeeds()
    two_run(project)
    nemotron_process("jobs", "cancel", detached, "--grace", "60").succeeds()
    sweep = json.loads((project.state / "sweeps" / detached / "sweep.json").read_text())
    assert (sweep["verdict"], sweep["ended"] is not None) == ("cancelled", True)
    assert counted(nemotron, detached) == {"cancelled": 2, "failed": 3}
    (project.home / "go").touch()
    assert "3 runs of 5 again" in nemotron_process("jobs", "retry", detached).succeeds().err
    assert nemotron_process("jobs", "wait", detached).code == 143, "two of its runs were cancelled"
    assert counted(nemotron, detached) == {"cancelled": 2, "succeeded": 3}
