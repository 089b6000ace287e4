"""A profile's ceiling is passed by nobody who was not asked: a question in a terminal, `-y`, exit code 2 else."""

from __future__ import annotations

import pytest
from terminals import in_terminal

CEILING = "\n[dear]\ngpus_per_node = 1\nmax_gpu_hours = 5\n"


@pytest.fixture
def dear(project):
    project.write("env.toml", project.env_file.read_text() + CEILING)
    project.recipe("toy", body="print('ran')\n")
    return project


def jobs(nemotron):
    return nemotron("jobs", "list", "--json").succeeds().json


@pytest.mark.parametrize(("keys", "code", "runs"), [("y\n", 0, True), ("\n", 2, False), ("n\n", 2, False)])
def test_a_terminal_is_asked(dear, nemotron, keys, code, runs):
    said, ended = in_terminal(dear, "toy", "--run", "dear", keys=keys)
    assert "the profile allows 5; submit it all the same? [y/N]" in " ".join(said.split())
    assert (ended, "ran" in said.splitlines()[-3:]) == (code, runs)
    assert bool(jobs(nemotron)) is runs


def test_without_a_terminal_it_is_refused_and_dash_y_answers(dear, nemotron, nemotron_process):
    nemotron("toy", "--run", "dear").refuses("the profile allows 5", "run.env.max_gpu_hours=null")
    assert jobs(nemotron) == []
    outcome = nemotron_process("toy", "--run", "dear", "-y").succeeds()
    assert "the profile allows 5: wanted all the same" in outcome.err


def test_a_sweep_is_asked_once(dear, nemotron, nemotron_process):
    nemotron("toy", "--run", "dear", "-m", "value=1,2").refuses("the profile allows 5")
    assert jobs(nemotron) == []
    said, code = in_terminal(dear, "toy", "--run", "dear", "-m", "value=1,2", keys="y\n")
    assert (said.count("[y/N]"), code) == (1, 0)
    nemotron_process("toy", "--run", "dear", "-m", "value=1,2", "--yes").succeeds()


def test_a_dry_run_asks_nobody(dear, nemotron):
    nemotron("toy", "--run", "dear", "-d").refuses("the profile allows 5")
    nemotron("toy", "--run", "dear", "-d", "-y").refuses("the profile allows 5")
