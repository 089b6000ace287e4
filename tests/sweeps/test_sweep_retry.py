"""`jobs retry SWEEP`: only its failed runs again, in their own places."""

from __future__ import annotations

import pytest
from support import HEADER, Outcome

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


def test_only_what_failed_runs_again(project, sweep, nemotron, nemotron_process):
    before = runs(nemotron("jobs", "list", "--group", sweep, "--json"))
    assert {state: len(names) for state, names in before.items()} == {"failed": 2, "succeeded": 2}
    assert nemotron_process("jobs", "retry", sweep).code == 5, "they fail again, and again they may be retried"
    (project.home / "broken").unlink()
    done = nemotron_process("jobs", "retry", sweep).succeeds()
    assert f"{sweep}: 2 runs of 4 again" in done.err
    assert "seed 1\n" in done.out
    assert counted(nemotron, sweep) == {"succeeded": 4}
    after = runs(nemotron("jobs", "list", "--group", sweep, "--json"))
    assert {state: len(names) for state, names in after.items()} == {"failed": 4, "succeeded": 4}
    assert set(before["succeeded"]) < set(after["succeeded"])
    assert "4 succeeded" in nemotron("jobs", "show", sweep).succeeds().out
    assert nemotron("jobs", "wait", sweep).code == 0
    nemotron_process("jobs", "retry", sweep).refuses(f"no run of sweep '{sweep}' has failed")


def test_a_sweep_of_which_only_the_jobs_are_left(project, sweep, nemotron, nemotron_process):
    (project.home / "broken").unlink()
    (project.state / "sweeps" / sweep / "sweep.json").unlink()
    (project.state / "sweeps" / sweep).rename(project.home / "gone")
    nemotron_process("jobs", "retry", sweep).succeeds()
    after = runs(nemotron("jobs", "list", "--group", sweep, "--json"))
    assert {state: len(names) for state, names in after.items()} == {"failed": 2, "succeeded": 4}
    nemotron_process("jobs", "retry", sweep).refuses("no run of sweep")
