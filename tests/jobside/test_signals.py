"""Signals at random moments of jobs that really run: a tenth of what is run by hand (`storm.py`)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from job_scripts import environment, lay_out, plan_for
from jobside.storm import moment, plan_of, run
from waiting import until

from nemo_runspec.backends.local import processes
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import read_markers

EACH = 20
"""Moments of one test."""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["program", "line"])
@pytest.mark.parametrize("first", range(1, 101, EACH))
def test_no_signal_is_lost_nor_told_twice_and_none_ends_a_job_falsely(tmp_path: Path, way: str, first: int):
    for seed in range(first, first + EACH):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert run(moment(seed, way), folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 5])
def test_nor_under_torchrun(tmp_path: Path, torch_bin: Path, first: int):
    for seed in range(first, first + 4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert run(moment(seed, "torchrun"), folder, str(torch_bin)) == []


def test_a_seed_gives_the_same_moment_again():
    assert moment(7) == moment(7) != moment(8)


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_a_stop_that_comes_before_the_first_line_is_in_the_record(tmp_path: Path, name: str):
    """The worker starts the script with them blocked, and a mask outlives exec."""
    plan = plan_for(tmp_path, "")
    process = processes.start(plan.job_dir, ["bash", lay_out(plan).job_script], environment(), tmp_path)
    process.send_signal(getattr(signal, f"SIG{name}"))
    process.communicate(timeout=120)
    (record,) = read_markers(Path(JobLayout(plan.job_dir).status))
    assert (
        (record.received, record.exit_code)
        == (name, 128 + getattr(signal, f"SIG{name}"))
        == (
            name,
            process.returncode,
        )
    )
    assert record.phase != "command"


def test_one_that_the_command_counts_is_told_to_it_though_it_came_before_the_first_line(tmp_path: Path):
    case = moment(1)
    plan = plan_of(case, tmp_path)
    process = processes.start(plan.job_dir, ["bash", lay_out(plan).job_script], environment(), tmp_path)
    process.send_signal(signal.SIGUSR1)
    counted = tmp_path / "counted"
    until(lambda: counted.exists() and "USR1" in counted.read_text().split(), "the count")
    (tmp_path / "go").touch()
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert counted.read_text().split() == ["begun", "USR1", "ended"]
