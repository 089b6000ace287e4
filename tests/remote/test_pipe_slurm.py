"""A pipeline on a cluster: all of it is Slurm's at once, and this machine may be switched off."""

from __future__ import annotations

import pytest
from labs.slurm.fixtures import needs_slurm
from slurm_project import Cluster
from toy_steps import write_steps
from waiting import open_gate, until

pytestmark = needs_slurm
STEPS = ("toy/fetch", "toy/clean", "toy/count")


@pytest.fixture
def site(cluster: Cluster) -> Cluster:
    write_steps(cluster.project, held="true")
    return cluster


def pipe(site: Cluster, mode: str, *args: str):
    place = f"run.env.remote_job_dir={site.project.folder}/jobs"
    return site.nemotron("pipe", *STEPS, mode, "there", place, "run.env.nodes=1", *args)


def shown(site: Cluster, group: str) -> dict:
    return site.nemotron("jobs", "show", group, "-o", "json").succeeds().json


def ended(site: Cluster, group: str) -> dict:
    return until(lambda: shown(site, group), group, lambda found: found["over"])


def test_slurm_orders_the_steps(site: Cluster):
    done = pipe(site, "--batch").succeeds()
    group = done.out.strip()
    first, second, third = shown(site, group)["steps"]
    waiting = {
        each["job"]: site.lab.run("squeue", "--noheader", f"--name={each['job']}", "--format=%E %T").stdout
        for each in (second, third)
    }
    assert all(line.startswith("afterok:") and "PENDING" in line for line in waiting.values()), waiting
    # The same is not submitted twice while it goes on.
    pipe(site, "--batch").refuses("makes the same now", group)
    open_gate(site.remote(first["job"]))
    found = ended(site, group)
    assert (found["state"], found["exit_code"]) == ("succeeded", 0)
    assert "counted 4" in "\n".join(site.logs(third["job"]))
    # Nothing has changed; then the last step alone has.
    assert "nothing to be done" in pipe(site, "--batch").succeeds().err
    again = pipe(site, "--run", "count:+more=1").succeeds()
    assert "toy/clean: not run again" in again.err and "changed: config" in again.err
    newest = next(word for word in again.err.split() if word.startswith("pipe-")).rstrip(":")
    assert [each["reused"] for each in shown(site, newest)["steps"]] == [True, True, False]


def test_a_failed_step_ends_what_waits_for_it(site: Cluster):
    write_steps(site.project)
    done = pipe(site, "--run", "clean:code=9")
    assert done.code == 9, (done.out, done.err)
    group = next(word for word in done.err.split() if word.startswith("pipe-")).rstrip(":")
    found = shown(site, group)
    assert found["state"] == "failed"
    assert [each["state"] for each in found["steps"][:2]] == ["succeeded", "failed"]
    assert found["steps"][2]["state"] in ("failed", "cancelled")
    assert site.lab.run("squeue", "--noheader", f"--name={found['steps'][2]['job']}").stdout == ""


def test_cancelled_as_one(site: Cluster):
    group = pipe(site, "--batch").succeeds().out.strip()
    site.nemotron("jobs", "cancel", group, "--grace", "1").succeeds()
    found = ended(site, group)
    assert found["state"] == "cancelled"
    assert [each["state"] for each in found["steps"]] == ["cancelled"] * 3


def test_a_step_that_is_refused_ends_those_before_it(site: Cluster):
    done = pipe(site, "--batch", "count:run.env.partition=nowhere")
    assert done.code != 0, done.out
    assert "those before it are ended" in done.err and "nowhere" in done.err
    assert done.err.count("error: ") == 1 and "Traceback" not in done.err
    for each in site.nemotron("jobs", "list", "--json").succeeds().json:
        if each.get("kind") != "sweep":
            assert site.until(each["name"], lambda record: record["over"])["state"] in ("cancelled", "failed")


def test_when_the_client_is_killed_while_it_submits_a_rerun_makes_nothing_twice(site: Cluster):
    place = f"run.env.remote_job_dir={site.project.folder}/jobs"
    words = ("pipe", *STEPS, "--batch", "there", place, "run.env.nodes=1")
    child = site.started(*words)
    sweeps = site.project.state / "sweeps"
    until(lambda: list(sweeps.glob("pipe-*/sweep.json")) or child.poll() is not None, "it is written down")
    child.kill()
    child.communicate(timeout=60)
    group = next(sweeps.glob("pipe-*")).name
    first = shown(site, group)["steps"][0]["job"]
    again = site.nemotron(*words)
    if again.code == 2:  # its first step was submitted, or may have been
        again.refuses(f"toy/fetch: {first} makes the same now", group)
        open_gate(site.remote(first))
        site.nemotron("jobs", "wait", group)
        assert site.until(first, lambda record: record["over"])["state"] in ("succeeded", "lost", "failed")
        again = site.nemotron(*words)
    group = again.succeeds().out.strip() or group
    found = shown(site, group)["steps"]
    open_gate(site.remote(found[0]["job"]))
    assert ended(site, group)["state"] == "succeeded"
    for job in (each["job"] for each in shown(site, group)["steps"]):
        asked = ("sacct", "--noheader", "--allocations", "--parsable2", f"--name={job}", "--format=State")
        until(lambda asked=asked: site.lab.run(*asked).stdout.split(), job, lambda found: found == ["COMPLETED"])
    made = site.nemotron("jobs", "list", "--state", "succeeded", "--json").succeeds().json
    assert sum(each.get("kind") != "pipeline" for each in made) == len(STEPS)


def test_steps_on_this_machine_and_on_the_cluster_share_a_folder(site: Cluster):
    write_steps(site.project)
    site.project.write(
        "mixed.yaml",
        f"""\
overrides: {{run.artifacts.root: {site.project.folder}/shared}}
steps:
  - toy/fetch
  - step: toy/clean
    profile: there
    overrides: {{run.env.remote_job_dir: {site.project.folder}/jobs, run.env.nodes: 1}}
  - toy/count
""",
    )
    done = site.nemotron("pipe", "mixed.yaml").succeeds()
    group = next(word for word in done.err.split() if word.startswith("pipe-")).rstrip(":")
    found = shown(site, group)
    assert [each["state"] for each in found["steps"]] == ["succeeded"] * 3
    assert (site.project.folder / "shared/toy-count" / found["steps"][2]["job"] / "count").read_text() == "4"
    assert "nothing to be done" in site.nemotron("pipe", "mixed.yaml").succeeds().err
