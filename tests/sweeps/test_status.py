"""The state of a sweep, whoever asks."""

from __future__ import annotations

import dataclasses

import pytest
from job_records import gone
from sweep_records import member, sweep_of

from nemo_runspec.records import Launcher
from nemo_runspec.records.process import machine, this_process
from nemo_runspec.sweeps.status import Status, state_for, status_of


def going(launcher, *members, **values):
    return dataclasses.replace(sweep_of(*members), ended=None, launcher=launcher, **values)


def ended(*members, **values):
    return dataclasses.replace(sweep_of(*members), ended="2026-11-21T09:00:00.000+00:00", **values)


def test_while_its_process_lives():
    waiting = member(1, {}, state=None)
    assert status_of(going(this_process(), waiting)) == Status("planned")
    assert status_of(going(this_process(), member(0, {}), waiting)) == Status("running")


@pytest.mark.parametrize(
    ("waiting", "why"),
    [(0, "its process was killed before its end"), (1, "its process was killed; 1 run was not started"),
     (2, "its process was killed; 2 runs were not started")],
)  # fmt: skip
def test_killed_before_its_end(waiting, why):
    members = [member(0, {}), *(member(n + 1, {}, state=None) for n in range(waiting))]
    assert status_of(going(gone(), *members)) == Status("lost", why, 1)
    assert status_of(going(None, *members)).over


def test_a_restart_a_container_and_another_machine(monkeypatch):
    boot, space = machine().split()
    elsewhere = Launcher(1, "1", f"other-boot {space}")
    import os

    restarted = status_of(going(elsewhere, host=os.uname().nodename))
    assert (restarted.state, restarted.reason) == ("lost", "the machine was restarted before its end")
    assert status_of(going(elsewhere, host="login-9")).state == "unknown"
    assert "login-9" in status_of(going(elsewhere, host="login-9")).reason
    inside = status_of(going(Launcher(1, "1", f"{boot} pid:[1]")))
    assert (inside.state, inside.over) == ("unknown", False)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["succeeded", "succeeded"], ("succeeded", 0)), (["succeeded", "cancelled"], ("cancelled", 130)),
        (["cancelled", "failed"], ("failed", 3)), (["succeeded", "lost"], ("lost", 1)),
        (["cancelled", None], ("cancelled", 130)), ([], ("succeeded", 0)), (["succeeded", None], ("cancelled", 1)),
    ],
)  # fmt: skip
def test_at_its_end(states, expected):
    found = status_of(ended(*(member(n, {}, state=state) for n, state in enumerate(states))))
    assert (found.state, found.exit_code) == expected


def test_what_it_wrote_down_itself_counts():
    """Members may be removed or run again afterwards."""
    kept = ended(member(0, {}), verdict="failed", exit_code=2, cause="the sweeper has failed")
    assert status_of(kept) == Status("failed", "the sweeper has failed", 2)
    removed = dataclasses.replace(member(0, {}), record=None, was="succeeded")
    assert status_of(ended(removed)) == Status("succeeded", "", 0)


def test_a_sweep_of_which_only_jobs_are_left():
    assert state_for(["succeeded", "running", "failed"]) == "running"
    assert state_for(["succeeded", "cancelled"]) == "cancelled"


@pytest.mark.parametrize(("launcher", "state"), [(gone(), "lost"), (this_process(), "planned"), (None, "unknown")])
def test_a_sweep_whose_runs_were_never_recorded(launcher, state):
    """Its client died before it had: nothing was submitted, and nothing will be. Without one its jobs were removed."""
    sweep = dataclasses.replace(going(launcher, *(member(n, {}, state=None) for n in range(2))), unattended=True)
    found = status_of(sweep)
    assert (found.state, found.over) == (state, state == "lost")
    if state == "lost":
        assert (found.reason, found.exit_code) == ("its process was killed; 2 runs were not started", 1)


def test_a_sweep_some_of_whose_runs_were_recorded_is_what_they_are():
    sweep = dataclasses.replace(
        going(gone(), member(0, {}, state="running"), member(1, {}, state=None)), unattended=True
    )
    assert status_of(sweep).state == "running"
