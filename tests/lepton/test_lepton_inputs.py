"""Inputs on a platform's volume, which cannot be asked: made first by a job that is waited for, then known."""

from __future__ import annotations

import pytest
from input_recipes import jobs_of, write_recipes
from labs.lepton.lab import LeptonLab
from labs.pods import needs_mounts
from lepton_project import Site, make_site
from support import finish
from waiting import until

pytestmark = needs_mounts


@pytest.fixture
def site(lepton_lab: LeptonLab, tmp_path) -> Site:
    made = make_site(lepton_lab, tmp_path)
    write_recipes(made.project)
    return made


@pytest.mark.parametrize("mode", ["--run", "--batch"])
def test_made_first_and_once(site: Site, mode: str):
    """Both modes wait for what makes the input; a detached job is submitted after it."""
    done = site.nemotron("mine", "read", mode, "one").succeeds()
    (maker,), (name,) = jobs_of(site.project, "mine-make"), jobs_of(site.project, "mine-read")
    assert "'words' cannot be looked for from here; mine/make runs first" in done.err
    assert name in done.out if mode == "--batch" else f"read: made by {maker}" in done.out
    site.nemotron("jobs", "wait", name).succeeds()
    again = site.nemotron("mine", "read", "--run", "one").succeeds()
    assert f"{maker} has made it" in again.err
    assert f"read: made by {maker}" in again.out
    assert jobs_of(site.project, "mine-make") == [maker]


def test_one_that_fails_keeps_the_other_from_being_submitted(site: Site):
    done = site.nemotron("mine", "read", "--batch", "one", "-c", "failing")
    assert done.code == 5, done.err
    assert "making 'words' has ended with exit code 5 (mine-make-" in done.err
    assert "; mine/read was not started" in done.err
    assert not jobs_of(site.project, "mine-read")


def test_a_volume_that_this_machine_sees_is_asked(site: Site):
    here = site.lab.volumes["lustre"] / "run"
    site.profile(f'[seen]\nextends = "one"\nrun_dir_here = "{here}"\n')
    site.nemotron("mine", "read", "--batch", "seen", "-c", "strict").refuses("is missing: words", "nemotron mine make")
    assert not site.lab.jobs
    site.nemotron("mine", "make", "--run", "seen").succeeds()
    shown = site.nemotron("mine", "read", "--run", "one", "--dry-run").succeeds().out
    assert "if it is missing, mine/make runs first, and this job is submitted after it" in shown


def swept(site: Site, config: str) -> str:
    """A sweep of two runs, one at a time, which a process without a terminal leads."""
    words = ("+run.env.env_vars.N=1,2", "run.env.max_parallel=1", "-m")
    return site.nemotron("mine", "read", "--batch", "one", "-c", config, *words).succeeds().out.strip()


def test_a_sweep_is_cancelled_with_what_makes_its_input(site: Site):
    group = swept(site, "held")
    (maker,) = until(lambda: jobs_of(site.project, "mine-make"), "the job that makes it")
    until(lambda: site.state(maker), maker, lambda state: state == "running")
    site.nemotron("jobs", "cancel", group, "--grace", "1").succeeds()
    assert until(lambda: site.state(maker), maker, lambda state: state != "running") == "cancelled"
    assert not jobs_of(site.project, "mine-read")


def test_a_sweep_leaves_what_another_call_waits_for(site: Site):
    group = swept(site, "held")
    (maker,) = until(lambda: jobs_of(site.project, "mine-make"), "the job that makes it")
    until(lambda: site.state(maker), maker, lambda state: state == "running")
    other = site.started("mine", "read", "--run", "one", "-c", "held")
    until(lambda: site.record(maker)["relations"]["awaited_by"], "two that wait", lambda known: len(known or ()) == 2)
    site.nemotron("jobs", "cancel", group, "--grace", "1").succeeds()
    site.opened(maker)
    assert finish(other).code == 0
    assert site.state(maker) == "succeeded"


def test_a_sweep_whose_input_is_not_made(site: Site):
    group = swept(site, "failing")
    assert site.nemotron("jobs", "wait", group).code == 5
    (maker,) = jobs_of(site.project, "mine-make")
    shown = site.nemotron("jobs", "show", group).succeeds().out
    assert f"making 'words' has ended with exit code 5 ({maker})" in shown
    assert not jobs_of(site.project, "mine-read")
