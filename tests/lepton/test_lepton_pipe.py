"""A pipeline on a cloud: a process here leads it, each step a job that reads what the one before left on the volume."""

from __future__ import annotations

import json
import os
import signal

import pytest
from labs.lepton.lab import LeptonLab
from labs.pods import needs_mounts
from lepton_project import Site, make_site
from toy_steps import write_steps
from waiting import until

pytestmark = needs_mounts
STEPS = ("toy/fetch", "toy/clean", "toy/count")


@pytest.fixture
def site(lepton_lab: LeptonLab, tmp_path) -> Site:
    made = make_site(lepton_lab, tmp_path)
    write_steps(made.project)
    return made


def shown(site: Site, group: str) -> dict:
    return site.nemotron("jobs", "show", group, "-o", "json").succeeds().json


@pytest.mark.parametrize("mode", ["--run", "--batch"])
def test_led_from_here(site: Site, mode: str):
    done = site.nemotron("pipe", *STEPS, mode, "one").succeeds()
    group = next(word for word in (done.out + done.err).split() if word.startswith("pipe-")).rstrip(":")
    site.nemotron("jobs", "wait", group).succeeds()
    found = shown(site, group)
    assert [each["state"] for each in found["steps"]] == ["succeeded"] * 3
    assert "counted 4" in site.nemotron("jobs", "logs", found["steps"][2]["job"]).succeeds().out
    # Its steps are not run again, and no request makes a job.
    jobs = len(site.lab.jobs)
    assert "nothing to be done" in site.nemotron("pipe", *STEPS, mode, "one").succeeds().err
    assert len(site.lab.jobs) == jobs


def test_a_failed_step_stops_what_depends_on_it(site: Site):
    done = site.nemotron("pipe", *STEPS, "--run", "one", "clean:code=6")
    assert done.code == 6, done.err
    group = next(word for word in done.err.split() if word.startswith("pipe-")).rstrip(":")
    assert [each["state"] for each in shown(site, group)["steps"]] == ["succeeded", "failed", "not run"]


@pytest.fixture
def held(site: Site) -> tuple[str, str, int]:
    """A detached run whose first step waits: its name, that step's job, the process that leads it."""
    write_steps(site.project, held="true")
    group = site.nemotron("pipe", *STEPS, "--batch", "one").succeeds().out.strip()
    first = until(lambda: shown(site, group)["steps"][0], "the first runs", lambda step: step["state"] == "running")
    record = json.loads((site.project.state / "sweeps" / group / "sweep.json").read_text())
    return group, first["job"], record["launcher"]["pid"]


@pytest.mark.parametrize("again", [(), ("--from", "clean")])
def test_a_stage_that_waits_in_another_run_is_not_made_here(site: Site, held: tuple[str, str, int], again: tuple):
    group, first, leader = held
    os.kill(leader, signal.SIGSTOP)
    try:
        site.opened(first)
        until(lambda: site.state(first), "the first ends", lambda state: state == "succeeded")
        waits = shown(site, group)["steps"][1]["job"]
        said = f"toy/clean: {waits} makes the same now (waiting, in {group})"
        site.nemotron("pipe", *STEPS, "--run", "one", *again).refuses(said)
    finally:
        os.kill(leader, signal.SIGCONT)
    assert site.nemotron("jobs", "wait", group).code == 0
    assert len(site.lab.jobs) == 3


def test_when_its_process_is_killed_a_rerun_goes_on_after_what_runs_still(site: Site, held: tuple[str, str, int]):
    group, first, leader = held
    os.kill(leader, signal.SIGKILL)
    until(lambda: shown(site, group)["state"], "it is lost", lambda state: state == "lost")
    site.nemotron("pipe", *STEPS, "--run", "one").refuses(f"toy/fetch: {first} makes the same now", group)
    site.opened(first)
    assert site.nemotron("jobs", "wait", group).code != 0  # it was lost, and its job has ended
    assert site.state(first) == "succeeded"
    done = site.nemotron("pipe", *STEPS, "--run", "one").succeeds()
    assert f"toy/fetch: not run again (made by {first})" in done.err
    assert len(site.lab.jobs) == 3


def test_when_its_process_is_killed_cancel_ends_what_runs_still(site: Site, held: tuple[str, str, int]):
    group, first, leader = held
    os.kill(leader, signal.SIGKILL)
    site.nemotron("jobs", "cancel", group, "--grace", "1").succeeds()
    assert site.state(first) == "cancelled"
