"""Inputs on a cluster: looked at before anything is submitted, made by a job that the other one waits for."""

from __future__ import annotations

import pytest
from input_recipes import jobs_of, write_recipes
from labs.slurm.fixtures import needs_slurm
from slurm_project import Cluster
from support import finish
from waiting import open_gate, until

pytestmark = needs_slurm


@pytest.fixture
def site(cluster: Cluster) -> Cluster:
    write_recipes(cluster.project)
    return cluster


def read(site: Cluster, mode: str, profile: str, *args: str):
    return site.nemotron("mine", "read", mode, profile, f"run.env.remote_job_dir={site.project.folder}/jobs", *args)


def test_a_missing_input_is_made_by_a_job_before(site: Cluster):
    """Detached: both are submitted at once; the second waits for the first and reads what that one has made."""
    done = read(site, "--batch", "pair", "-c", "held").succeeds()
    name = done.out.strip()
    (maker,) = jobs_of(site.project, "mine-make")
    assert "'words' is not there yet; mine/make runs first" in done.err
    assert site.show(name)["relations"]["needs"] == [maker]
    assert site.show(maker)["relations"]["made_for"] == [name]
    assert maker in site.nemotron("jobs", "show", name).succeeds().out
    waiting = site.lab.run("squeue", "--noheader", f"--name={name}", "--format=%E %T").stdout
    assert waiting.startswith("afterok:") and "PENDING" in waiting
    # Asked for once more while it is being made, nothing is made twice.
    again = read(site, "--batch", "there", "-c", "held").succeeds()
    assert f"{maker} makes it" in again.err
    open_gate(site.remote(maker))
    for each in (name, again.out.strip()):
        assert site.until(each, lambda record: record["over"])["state"] == "succeeded"
        assert f"read: made by {maker}" in "\n".join(site.logs(each))
    assert "making on 1" in "\n".join(site.logs(maker)), "the profile's two nodes are not for it"
    # It is there now.
    third = read(site, "--run", "there", "-c", "held").succeeds()
    assert f"made by {maker}" in third.out
    assert jobs_of(site.project, "mine-make") == [maker]


def test_one_that_fails_ends_what_waits_for_it(site: Cluster):
    done = read(site, "--run", "here", "-c", "failing")
    (maker,), (name,) = jobs_of(site.project, "mine-make"), jobs_of(site.project, "mine-read")
    assert done.code != 0
    record = site.until(name, lambda record: record["over"])
    assert site.status(maker)["exit_code"] == 5
    assert (record["state"], record["exit_code"], done.code) == ("failed", 5, 5)
    assert record["cause"] == f"its input was not made: {maker} is failed"
    # What it left is not read by a retry either.
    site.nemotron("jobs", "retry", name).refuses(f"reads what {maker} was to make, and that is failed")


def test_cancelled_together(site: Cluster):
    name = read(site, "--batch", "here", "-c", "held").succeeds().out.strip()
    (maker,) = jobs_of(site.project, "mine-make")
    done = site.nemotron("jobs", "cancel", name, "--grace", "1").succeeds()
    assert f"{maker} only makes an input for what is ended" in done.err
    assert [site.status(each)["state"] for each in (name, maker)] == ["cancelled", "cancelled"]


def test_what_makes_it_is_cancelled(site: Cluster):
    name = read(site, "--batch", "here", "-c", "held").succeeds().out.strip()
    (maker,) = jobs_of(site.project, "mine-make")
    done = site.nemotron("jobs", "cancel", maker, "--grace", "1").succeeds()
    assert f"{name} waits for what is ended" in done.err
    assert site.until(name, lambda record: record["over"])["state"] == "cancelled"


def test_nothing_that_makes_it(site: Cluster):
    """Refused before anything is submitted, with the command."""
    done = read(site, "--batch", "there", "-c", "strict")
    done.refuses("input 'data' (text) is missing: words", "nemotron mine make -c default --run there")
    named = site.nemotron("mine", "read", "--batch", "there", "run.data.path=/usr/nowhere/words")
    named.refuses("is missing: /usr/nowhere/words")
    attached = site.nemotron("mine", "read", "--run", "there", "run.data.path=/usr/nowhere/words")
    attached.refuses("is missing: /usr/nowhere/words")
    assert not jobs_of(site.project, "mine")


@pytest.mark.parametrize("path", ["/none-such/words", "/usr/nowhere/../words", "/tmp/nowhere/words"])
def test_what_only_nodes_can_tell_is_said_and_not_judged(site: Cluster, path: str):
    """A disk that the login node has not, a way back from a link, what every node has of its own."""
    done = site.nemotron("mine", "read", "--batch", "there", f"run.data.path={path}").succeeds()
    assert f"warning: input 'data' cannot be looked for from here: {path}" in done.err
    site.nemotron("jobs", "cancel", done.out.strip(), "--grace", "1").succeeds()


def test_shown_before(site: Cluster):
    shown = read(site, "--batch", "there", "--dry-run").succeeds().out
    assert "if it is missing, mine/make runs first, and this job waits for it (--dependency=afterok:ID)" in shown


def test_a_sweep_waits_for_it_too(site: Cluster):
    """All runs of it read the one that is made once."""
    done = read(site, "--run", "here", "-m", "+run.env.env_vars.N=1,2").succeeds()
    (maker,) = jobs_of(site.project, "mine-make")
    assert done.err.count("runs first") == 1
    for name in jobs_of(site.project, "mine-read"):
        assert f"read: made by {maker}" in "\n".join(site.logs(name))
    assert len(jobs_of(site.project, "mine-read")) == 2


def swept(site: Cluster, config: str, *args: str) -> tuple[str, str, list[str]]:
    """A detached sweep of two runs: its name, the job that makes their input, and theirs."""
    done = read(site, "--batch", "here", "-c", config, "-m", "+run.env.env_vars.N=1,2", *args).succeeds()
    (maker,) = jobs_of(site.project, "mine-make")
    return done.out.strip(), maker, jobs_of(site.project, "mine-read")


@pytest.mark.parametrize("shape", ["array", "jobs", "alone"])
def test_a_sweep_is_cancelled_with_what_makes_its_input(site: Cluster, shape: str):
    """As an array, as jobs by themselves; not with one run of it, nor where a job of another call reads it too."""
    more = {"array": (), "jobs": ("run.env.time=00:04:00,00:05:00",), "alone": ("run.env.max_parallel=2",)}[shape]
    group, maker, names = swept(site, "held", *more)
    assert [site.show(name)["relations"]["needs"] for name in names] == [[maker]] * len(names)
    assert sorted(site.show(maker)["relations"]["made_for"]) == names
    assert len(names) == (4 if shape == "jobs" else 2)
    other = read(site, "--batch", "here", "-c", "held").succeeds().out.strip()
    site.nemotron("jobs", "cancel", other, "--grace", "1").succeeds()
    site.nemotron("jobs", "cancel", names[0], "--grace", "1").succeeds()
    assert site.status(maker)["over"] is False
    done = site.nemotron("jobs", "cancel", group, "--grace", "1").succeeds()
    assert f"{maker} only makes an input for what is ended" in done.err
    assert {site.status(each)["state"] for each in (maker, *names)} == {"cancelled"}


def test_a_sweep_that_a_sweeper_leads_is_ended_with_what_makes_its_input(site: Cluster):
    """Its process is told: TERM ends the runs, and the job that makes for them."""
    place = f"run.env.remote_job_dir={site.project.folder}/jobs"
    words = ("-m", "+run.env.env_vars.N=1,2", "hydra/sweeper=basic", place)
    child = site.started("mine", "read", "--run", "here", "-c", "held", *words)
    names = until(lambda: jobs_of(site.project, "mine-read"), "a run of it")
    (maker,) = jobs_of(site.project, "mine-make")
    until(lambda: site.show(names[0])["handle"].get("id"), "its id")
    assert site.show(names[0])["relations"]["needs"] == [maker]
    child.terminate()
    told = finish(child)
    assert told.code == 143, told.err
    assert f"{maker} only makes an input for what is ended: it is ended too" in told.err
    assert site.until(maker, lambda record: record["over"])["state"] == "cancelled"


def test_what_another_job_reads_too_outlives_a_sweep(site: Cluster):
    group, maker, names = swept(site, "held")
    other = read(site, "--batch", "here", "-c", "held").succeeds().out.strip()
    site.nemotron("jobs", "cancel", group, "--grace", "1").succeeds()
    assert {site.status(each)["state"] for each in names} == {"cancelled"}
    open_gate(site.remote(maker))
    assert site.until(other, lambda record: record["over"])["state"] == "succeeded"


def test_a_sweep_whose_input_is_not_made(site: Cluster):
    """Every run names the job that was to make it, and is not run again without it."""
    group, maker, names = swept(site, "failing")
    for name in names:
        record = site.until(name, lambda record: record["over"])
        assert (record["state"], record["exit_code"]) == ("failed", 5)
        assert record["cause"] == f"its input was not made: {maker} is failed"
    assert site.nemotron("jobs", "wait", group).code == 5
    for each in (group, names[0]):
        site.nemotron("jobs", "retry", each).refuses(f"reads what {maker} was to make, and that is failed")
