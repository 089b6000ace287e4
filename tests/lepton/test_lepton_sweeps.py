"""Sweeps of jobs on Lepton, a registry's key that changes, and what a submission must not import."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cloud_projects import ends, group_of
from labs.lepton.scenario import Timings
from labs.pods import needs_mounts
from lepton_project import Site, make_site, var

pytestmark = needs_mounts

SCRIPT = """\
import json, os, pathlib, sys, time
code, top = int(os.environ.get("CODE", "0")), pathlib.Path("/mnt/lustre")
beats = os.open(top / "beats", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(beats, b"+")
print("code", code, flush=True)
time.sleep(float(os.environ.get("SECONDS_TO_RUN", "0")))
if "LOSS" in os.environ:
    pathlib.Path(os.environ["NEMOTRON_METRICS_FILE"]).write_text(json.dumps({"loss": float(os.environ["LOSS"])}))
os.write(beats, b"-")
sys.exit(0 if (top / "mended").exists() else code)
"""


@pytest.fixture
def site(lepton_lab, tmp_path) -> Site:
    found = make_site(lepton_lab, tmp_path)
    found.project.write("train.py", SCRIPT)
    return found


def sweep(site: Site, mode: str, *codes: int, more: tuple[str, ...] = ()):
    """Runs the script once with each exit code."""
    values = ",".join(f"'{code}'" for code in codes)
    return site.nemotron("run", "./train.py", "-m", mode, "one", f"++run.env.env_vars.CODE={values}", *more)


def submissions(site: Site) -> int:
    """How many jobs were asked for."""
    return len(site.lab.calls_of("POST /jobs"))


def beats(site: Site) -> str:
    """A + for every script that has begun, a - for every one that has ended, in their order."""
    return (site.lab.volumes["lustre"] / "beats").read_text()


def test_an_attached_sweep(site):
    """Each run is a job by itself; the exit code is that of the first that has failed."""
    told = sweep(site, "--run", 0, 7)
    assert told.code == 7, told.err
    assert "each run is a job by itself" in told.err
    assert submissions(site) == len(site.lab.jobs) == 2
    assert sorted(job.state for job in site.lab.jobs) == ["Completed", "Failed"]
    assert ends(site, group_of(site)) == [("failed", 7), ("succeeded", 0)]
    assert site.lab.running == []


def test_only_the_failed_runs_of_a_detached_sweep_run_again(site):
    group = sweep(site, "--batch", 0, 7).succeeds().out.strip()
    assert group == group_of(site)
    waited = site.nemotron("jobs", "wait", group)
    assert waited.code == 7, waited.err
    assert ends(site, group) == [("failed", 7), ("succeeded", 0)]
    (site.lab.volumes["lustre"] / "mended").touch()
    again = site.nemotron("jobs", "retry", group).succeeds()
    assert f"{group}: 1 run of 2 again" in again.err
    assert again.out.strip() == group, "what it can be waited for by"
    site.nemotron("jobs", "wait", group).succeeds()
    assert submissions(site) == len(site.lab.jobs) == 3
    assert "code 7\n" in site.lab.jobs[2].text
    assert ends(site, group) == [("failed", 7), ("succeeded", 0), ("succeeded", 0)]
    site.nemotron("jobs", "retry", group).refuses(f"no run of sweep '{group}' has failed")
    assert (submissions(site), site.lab.running) == (3, [])


def test_not_more_runs_at_a_time_than_were_asked_for(site):
    told = sweep(site, "--run", 3, 0, more=("run.env.max_parallel=1", *var(SECONDS_TO_RUN=0.5)))
    assert told.code == 3, told.err
    assert beats(site) == "+-+-"
    assert ends(site, group_of(site)) == [("failed", 3), ("succeeded", 0)]
    assert site.lab.running == []


def test_a_sweeper_that_waits_for_its_runs(site):
    """Its jobs are submitted from here, as many at a time as were asked for, the next once one is over."""
    words = ("hydra/sweeper=basic", "hydra.sweeper.max_batch_size=2", "run.env.max_parallel=1")
    swept = "++run.env.env_vars.LOSS='1','2'"
    told = site.nemotron("run", "./train.py", "-m", "--run", "one", swept, *words, *var(SECONDS_TO_RUN=0.5))
    assert told.code == 0, told.err
    assert submissions(site) == 2
    assert beats(site) == "+-+-"
    rows = site.nemotron("jobs", "list", "--group", group_of(site), "--json").succeeds().json
    losses = [site.record(row["name"])["metrics"]["loss"] for row in rows if row["kind"] == "job"]
    assert sorted(losses) == [1.0, 2.0], "what each of them has told on Lepton"
    assert site.lab.running == []


IMAGE = "nvcr.io/nvidia/nemo:25.11"
PRIVATE = f"""
[private]
extends = "one"
container_image = "{IMAGE}"
pull_timeout = "10s"
on_timeout = "stop"
"""


def test_a_registry_key_that_changes(site):
    """A new key is another secret of the workspace, and the one that jobs name; the old one opens nothing any more."""
    site.profile(PRIVATE)
    site.lab.timings = Timings(pulling=0)  # or the limit of a second might strike before the image was asked for
    old, new = "nvapi-" + "old" * 9, "nvapi-" + "new" * 9
    site.lab.private["nvcr.io/"] = old
    site.run("private", *var(CODE=0), "run.env.pull_timeout=60s", NGC_KEY=old).succeeds()
    site.lab.private["nvcr.io/"] = new
    denied = site.run("private", *var(CODE=0), NGC_KEY=old)
    assert denied.code == 124, denied.err
    verdict = site.nemotron("jobs", "diagnose", site.lab.jobs[1].name, "--json").succeeds().json
    assert (verdict["state"], verdict["kind"]) == ("failed", "image")
    assert "NGC_KEY" in verdict["remedy"]
    site.run("private", *var(CODE=0), "run.env.pull_timeout=60s", NGC_KEY=new).succeeds()
    passwords = {name: spec["password"] for name, spec in site.lab.world.registries.items()}
    assert sorted(passwords.values()) == sorted([old, new]), "one of each, made once"
    named = [passwords[name] for job in site.lab.jobs for name in job.spec["image_pull_secrets"]]
    assert named == [old, old, new]
    assert [job.state for job in site.lab.jobs] == ["Completed", "Stopped", "Completed"]
    assert site.lab.running == []


HEAVY = {"nemo_run", "leptonai", "ray", "torch", "pydantic", "transformers", "numpy", "paramiko", "fabric", "wandb"}
REPORT = """
import sys
from nemotron.cli.main import run
try:
    code = run(sys.argv[1:])
finally:
    print("LOADED", *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
sys.exit(code)
"""


def test_a_submission_imports_nothing_heavy(site):
    """Attached: nor does following the job to its end."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, "run", "./train.py", "--run", "one", *var(CODE=0)],
        cwd=site.project.folder,
        env=site.project.environment(**site.lab.environment()),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert submissions(site) == len(site.lab.jobs) == 1
    loaded = set(done.stderr.rpartition("LOADED ")[2].split())
    assert "requests" in loaded, "what was asked was asked from this very process"
    assert loaded & HEAVY == set()
    assert (site.lab.jobs[0].state, site.lab.running) == ("Completed", [])


KILLED = """\
import os, signal
from nemo_runspec.sweeps.remote import RemoteSweep
RemoteSweep.record_jobs = lambda self: os.kill(os.getpid(), signal.SIGKILL)
"""
"""A `sitecustomize.py`: a sweep's client dies as it is about to write its runs down."""


def test_a_sweep_whose_client_died_before_its_runs_were_recorded(site, tmp_path):
    """Nothing was submitted, and nothing will be: it is lost, and not waited for."""
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / "sitecustomize.py").write_text(KILLED)
    site.project.extra["PYTHONPATH"] = str(tmp_path / "killed")
    assert sweep(site, "--batch", 0, 7).code == -9
    del site.project.extra["PYTHONPATH"]
    group = group_of(site)
    waited = site.nemotron("jobs", "wait", group)
    assert waited.code == 1, waited.err
    assert f"{group}: lost, exit code 1: its process was killed; 2 runs were not started" in waited.out
    assert submissions(site) == 0
