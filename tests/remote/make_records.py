"""How the records in `tests/data/records/<release>` were made: by the commands of that release, against the labs.

Run with the release that is to be kept, never to renew one that is kept already:

    REQUIRE_LAB=1 RECORDS=0.1.0 uv run --group dev pytest -q tests/remote/make_records.py

Each test drives jobs into states and copies their `record.json` and `plan.json` as they are at that moment, with the
sweeps' files. Paths of the machine it ran on are replaced. pytest does not collect this file by itself.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from input_recipes import jobs_of, write_recipes
from lab_docker import BASE
from slurm_project import Cluster
from support import REPOSITORY, Project
from waiting import until

sys.path.insert(0, str(Path(__file__).parents[1] / "lepton"))
sys.path.insert(0, str(Path(__file__).parents[1] / "dgxcloud"))
sys.path.insert(0, str(Path(__file__).parents[1] / "slurm"))
from dgx_project import make_site as make_runai
from lepton_project import Site, make_site, var
from slurm_jobs import closed

TOP = Path(__file__).parents[1] / "data" / "records" / os.environ.get("RECORDS", "scratch")
AGAIN = """
[again]
extends = "{0}"
retries = 2
avoid_failed_nodes = true

[strict]
extends = "{0}"
queue_timeout = "1h"
pull_timeout = "2h"
start_timeout = "3h"
on_timeout = "stop"
"""
FILES = ("record.json", "plan.json", "sweep.json")
HELD = (
    "import pathlib, os, time\nwhile not pathlib.Path(os.environ['NEMOTRON_JOB_DIR'], 'go').exists(): time.sleep(0.1)"
)


def keep(project: Project, name: str, case: str, **paths: str) -> None:
    """Copies a job as it is now, or a sweep, as a case."""
    for kind in ("jobs", "sweeps"):
        folder = project.state / kind / name
        for file in (folder / each for each in FILES):
            if not file.exists():
                continue
            text = file.read_text(encoding="utf-8")
            hidden = {
                str(project.folder.parent): "/lab",
                str(REPOSITORY): "/nemotron",
                **{v: k for k, v in paths.items()},
            }
            for real, shown in hidden.items():
                text = text.replace(real, shown)
            target = TOP / case / kind / name / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")


def test_local(project, nemotron_process):
    project.write("ok.py", "print('hello')")
    project.write("env.toml", '[mine]\nexecutor = "local"\n')
    project.write("bad.py", "raise SystemExit(3)")
    project.write("held.py", HELD)
    nemotron_process("run", "./ok.py").succeeds()
    keep(project, nemotron_process("jobs", "list", "--json").json[0]["name"], "local-succeeded")
    assert nemotron_process("run", "./bad.py").code == 3
    keep(project, nemotron_process("jobs", "list", "--json").json[0]["name"], "local-failed")
    name = nemotron_process("run", "./held.py", "--batch", "mine").succeeds().out.strip()
    until(lambda: nemotron_process("jobs", "status", name, "--json").json[0]["state"], "it", lambda s: s == "running")
    keep(project, name, "local-running")
    nemotron_process("jobs", "cancel", name).succeeds()
    keep(project, name, "local-cancelled")
    assert nemotron_process("run", "./ok.py", "-m", "++run.env.env_vars.N=1,2").code == 0
    [group] = [each.name for each in (project.state / "sweeps").iterdir()]
    rows = nemotron_process("jobs", "list", "--group", group, "--json").json
    for each in [group, *(row["name"] for row in rows)]:
        keep(project, each, "local-sweep")


def test_docker(docker_engine, project, nemotron_process):
    box = replace(project, extra={"DOCKER_HOST": docker_engine.host})
    box.write("env.toml", f'[box]\nexecutor = "docker"\ncontainer_image = "{BASE}"\n')
    box.write("held.py", HELD)
    host = docker_engine.host
    name = nemotron_process("run", "./held.py", "--batch", "box", DOCKER_HOST=host).succeeds().out.strip()

    def state():
        return nemotron_process("jobs", "status", name, "--json", DOCKER_HOST=host).json[0]["state"]

    until(state, "it", lambda found: found == "running")
    keep(project, name, "docker-running")
    nemotron_process("jobs", "cancel", name, DOCKER_HOST=host).succeeds()
    keep(project, name, "docker-cancelled")


def test_slurm(cluster: Cluster):
    def put(name: str, case: str) -> None:
        keep(cluster.project, name, case, **{"/slurm": str(cluster.lab.base)})

    with closed(cluster.lab):
        waiting = cluster.batch(HELD)
        cluster.until(waiting, lambda seen: seen["state"] == "queued")
        put(waiting, "slurm-queued")
    cluster.until(waiting, lambda seen: seen["state"] == "running")
    put(waiting, "slurm-running")
    cluster.nemotron("jobs", "cancel", waiting, "--grace", "1").succeeds()
    put(waiting, "slurm-cancelled")
    done = cluster.batch("print('done')")
    cluster.until(done, lambda seen: seen["over"])
    put(done, "slurm-succeeded")
    staged = cluster.nemotron("run", cluster.script("print(1)"), "--stage", "--batch", "there").succeeds().out.strip()
    put(staged, "slurm-staged")
    text = cluster.script(HELD)
    swept = ("-m", "--batch", "there", "++run.env.env_vars.N=1,2")
    group = cluster.nemotron("run", text, *swept).succeeds().out.strip()
    rows = cluster.nemotron("jobs", "list", "--group", group, "--json").json
    members = [row["name"] for row in rows if row["kind"] == "job"]
    for each in members:
        cluster.until(each, lambda seen: seen["state"] == "running")
    for each in [group, *members]:
        put(each, "slurm-sweep")
    cluster.nemotron("jobs", "cancel", group, "--grace", "0")


def test_slurm_inputs(cluster: Cluster):
    write_recipes(cluster.project)
    place = f"run.env.remote_job_dir={cluster.project.folder}/jobs"
    name = cluster.nemotron("mine", "read", "--batch", "there", place, "-c", "held").succeeds().out.strip()
    (maker,) = jobs_of(cluster.project, "mine-make")
    for each in (name, maker):
        keep(cluster.project, each, "slurm-inputs", **{"/slurm": str(cluster.lab.base)})
    cluster.nemotron("jobs", "cancel", name, "--grace", "1").succeeds()


@pytest.fixture
def lepton(lepton_lab, tmp_path) -> Site:
    found = make_site(lepton_lab, tmp_path)
    found.profile(AGAIN.format("one"))
    return found


def test_lepton(lepton: Site):
    site, lab = lepton, lepton.lab
    lab.scenario(None, "nocapacity")
    waiting = site.run("strict", mode="--batch").succeeds().out.strip()
    until(
        lambda: site.record(waiting),
        "its phase",
        lambda _: site.state(waiting) and "phase" in site.record(waiting)["facts"],
    )
    keep(site.project, waiting, "lepton-queued")
    site.nemotron("jobs", "stop", waiting, "--grace", "0").succeeds()
    keep(site.project, waiting, "lepton-stopped")
    lab.scenario(None, "nocapacity")
    late = site.run("strict", "run.env.queue_timeout=1s", mode="--batch").succeeds().out.strip()
    until(lambda: site.state(late), "its end", lambda state: state == "failed")
    keep(site.project, late, "lepton-timed-out")


def test_lepton_attempts(lepton: Site):
    site, lab = lepton, lepton.lab
    lab.scenario(None, "evicted", when="token 0")
    name = site.run("again", *var(STRUCK=0, GATE="go"), mode="--batch").succeeds().out.strip()
    until(lambda: [job.state for job in lab.jobs], "its eviction", lambda states: states == ["Failed"])
    broken = lab.fault("POST /jobs", "reset", times=None)
    site.nemotron("jobs", "status", name)
    assert "again" in site.record(name)["handle"], site.record(name)
    keep(site.project, name, "lepton-pending-attempt")
    broken.times = 0
    until(lambda: site.state(name), "its second attempt", lambda state: state == "running")
    keep(site.project, name, "lepton-second-attempt")
    site.nemotron("jobs", "cancel", name, "--grace", "0").succeeds()
    keep(site.project, name, "lepton-cancelled")


def test_lepton_absent(lepton: Site):
    site, lab = lepton, lepton.lab
    name = site.run("one", *var(GATE="go"), mode="--batch").succeeds().out.strip()
    until(lambda: site.state(name), "it", lambda state: state == "running")
    keep(site.project, name, "lepton-running")
    for pattern in ("GET /jobs", "GET /jobs/*"):
        lab.fault(pattern, "emptied" if pattern == "GET /jobs" else "404", times=None)
    site.nemotron("jobs", "status", name)
    keep(site.project, name, "lepton-absent")


def test_lepton_unconfirmed(lepton: Site):
    site, lab = lepton, lepton.lab
    lab.fault("* /jobs*", "reset", times=None)
    lab.fault("POST /jobs", "reset", times=None)
    site.run("one", mode="--batch")
    [folder] = (site.project.state / "jobs").glob("*/record.json")
    keep(site.project, folder.parent.name, "lepton-unconfirmed")


def test_lepton_unread(lepton: Site):
    site, lab = lepton, lepton.lab
    lab.fault("GET *log*", "500", times=None)
    name = site.run("one", *var(CODE=3), mode="--batch").succeeds().out.strip()
    until(lambda: lab.jobs[0].state, "its end", lambda state: state == "Failed")
    until(lambda: site.state(name), "its end on record", lambda state: state == "failed")
    assert site.record(name)["facts"]["unread"]
    keep(site.project, name, "lepton-unread")


def test_lepton_sweep(lepton: Site):
    site = lepton
    words = ("-m", "--batch", "one", "++run.env.env_vars.CODE='0','7'")
    group = site.nemotron("run", "./train.py", *words).succeeds().out.strip()
    site.nemotron("jobs", "wait", group)
    rows = site.nemotron("jobs", "list", "--group", group, "--json").json
    for each in [group, *(row["name"] for row in rows if row["kind"] == "job")]:
        keep(site.project, each, "lepton-sweep")


def test_runai(runai_lab, project):
    with make_runai(runai_lab, project, "import time\nprint('begun', flush=True)\ntime.sleep(600)") as site:
        site.profile(AGAIN.format("dgx"))
        name = site.nemotron("run", "./train.py", "--batch", "again").succeeds().out.strip()
        until(lambda: (site.nemotron("jobs", "status", name), site.state(name))[1], "it", lambda s: s == "running")
        keep(project, name, "dgxcloud-running")
        site.nemotron("jobs", "stop", name, "--grace", "0").succeeds()
        keep(project, name, "dgxcloud-stopped")


def test_runai_attempts(runai_lab, project):
    text = "import os, time\nprint('begun', flush=True)\ntime.sleep(600)"
    with make_runai(runai_lab, project, text) as site:
        site.profile(AGAIN.format("dgx"))
        runai_lab.scenario(None, "evicted", when="begun")
        name = site.nemotron("run", "./train.py", "--batch", "again").succeeds().out.strip()
        until(
            lambda: (site.nemotron("jobs", "status", name), site.record(name))[1],
            "it",
            lambda r: "tried" in r["handle"],
        )
        keep(project, name, "dgxcloud-second-attempt")
        assert json.loads((TOP / "dgxcloud-second-attempt/jobs" / name / "record.json").read_text())["handle"]["tried"]
        site.nemotron("jobs", "cancel", name, "--grace", "0").succeeds()


def test_runai_waits(runai_lab, project):
    with make_runai(runai_lab, project, "pass") as site:
        site.profile(AGAIN.format("dgx"))
        runai_lab.scenario(None, "nocapacity")
        name = site.nemotron("run", "./train.py", "--batch", "strict").succeeds().out.strip()
        site.nemotron("jobs", "status", name)
        keep(project, name, "dgxcloud-queued")


def test_slurm_requeued(cluster: Cluster):
    def put(case: str) -> None:
        keep(cluster.project, name, case, **{"/slurm": str(cluster.lab.base)})

    name = cluster.batch(HELD)
    cluster.until(name, lambda seen: seen["state"] == "running")
    with closed(cluster.lab):
        cluster.lab.run("scontrol", "requeue", cluster.show(name)["handle"]["id"])
        cluster.until(name, lambda seen: seen["state"] == "queued")
        put("slurm-requeued")
    cluster.until(name, lambda seen: seen["state"] == "running", 300)
    put("slurm-second-attempt")
    cluster.nemotron("jobs", "cancel", name, "--grace", "0").succeeds()


def test_runai_pending(runai_lab, project):
    text = "import os, time\nprint('begun', flush=True)\ntime.sleep(600)"
    with make_runai(runai_lab, project, text) as site:
        site.profile(AGAIN.format("dgx"))
        runai_lab.scenario(None, "evicted", when="begun")
        name = site.nemotron("run", "./train.py", "--batch", "again").succeeds().out.strip()
        broken = runai_lab.fault("POST /workloads/*", "reset", times=None)
        until(
            lambda: (site.nemotron("jobs", "status", name), site.record(name))[1],
            "its next attempt",
            lambda record: "again" in record["handle"],
        )
        keep(project, name, "dgxcloud-pending-attempt")
        broken.times = 0
        site.nemotron("jobs", "cancel", name, "--grace", "0").succeeds()
