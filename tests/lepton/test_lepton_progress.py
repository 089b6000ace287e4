"""How far a job on Lepton is, where this machine sees the directory for jobs; elsewhere nobody knows before its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from labs.lepton.lab import LeptonLab
from labs.pods import needs_mounts
from lepton_project import Site, make_site
from waiting import until

pytestmark = needs_mounts

TRAINS = """\
import json, os, pathlib, time
with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as metrics:
    for step in (1, 30):
        metrics.write(json.dumps({"step": step, "total_steps": 200, "loss": 30 / step}) + "\\n")
while not (pathlib.Path(os.environ["NEMOTRON_JOB_DIR"]) / "go").exists():
    time.sleep(0.05)
"""


@pytest.fixture
def site(lepton_lab: LeptonLab, tmp_path: Path) -> Site:
    found = make_site(lepton_lab, tmp_path)
    found.profile(f'[seen]\nextends = "one"\nrun_dir_here = "{lepton_lab.volumes["lustre"] / "run"}"\n')
    found.project.write("train.py", TRAINS)
    return found


def submitted(site: Site, profile: str) -> str:
    """A job that has told of 30 steps, and waits; its name."""
    name = site.run(profile, mode="--batch").succeeds().out.strip()
    metrics = site.lab.volumes["lustre"] / "run" / "jobs" / name / "metrics.jsonl"
    until(lambda: metrics.exists() and metrics.read_text().count('step"') == 2, "its metrics")
    until(lambda: site.state(name), "the job", lambda state: state == "running")
    return name


def test_it_is_read_where_this_machine_sees_the_directory(site: Site) -> None:
    """No further question: the file is a file here. The time that is left counts from where the command began."""
    name = submitted(site, "seen")
    before = len(site.lab.calls)
    [told] = site.nemotron("jobs", "status", name, "--json").succeeds().json
    assert {key: told["progress"][key] for key in ("step", "total", "loss")} == {"step": 30, "total": 200, "loss": 1}
    assert told["progress"]["eta_seconds"] is not None
    assert not [call for call in site.lab.calls[before:] if "log" in call.path]
    assert "loss 1, step 30/200" in site.nemotron("jobs", "list").succeeds().out
    site.opened(name)
    assert site.nemotron("jobs", "wait", name).code == 0
    assert "progress" not in site.nemotron("jobs", "show", name, "--json").succeeds().json


def test_elsewhere_it_is_not_known_before_its_end(site: Site) -> None:
    name = submitted(site, "one")
    assert "progress" not in site.nemotron("jobs", "status", name, "--json").succeeds().json[0]
    site.opened(name)
    assert site.nemotron("jobs", "wait", name).code == 0
    assert site.nemotron("jobs", "show", name, "--json").succeeds().json["metrics"]["step"] == 30
