"""Jobs that an earlier release has submitted, and left to this one: they are followed, submitted again and ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from labs.pods import needs_mounts
from labs.slurm.fixtures import needs_slurm
from slurm_project import Cluster
from waiting import until

sys.path.insert(0, str(Path(__file__).parents[1] / "lepton"))
from lepton_project import Site, make_site, var

pytestmark = pytest.mark.slow

AGAIN = '\n[again]\nextends = "one"\nretries = 1\n'
HELD = "import time\nprint('begun', flush=True)\ntime.sleep(600)"


def as_0_1_0(file: Path) -> dict[str, Any]:
    """Rewrites a record as release 0.1.0 would have written it; what it is then."""
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    handle, relations = data["handle"], data.pop("relations")
    attempt, deadlines, cancellation = data.pop("attempt"), data.pop("deadlines"), data.pop("cancellation")
    beside = {"sent": data.pop("sent"), "staged": data.pop("staged")}
    beside |= {"needs": relations["needs"], "made_for": relations["made_for"], "made": relations["on_demand"]}
    if attempt:
        beside |= {"attempts": attempt["limit"], "avoid_failed_nodes": attempt["avoid_failed_nodes"]}
        beside |= {"avoid": attempt["avoid"], "tried": [_tried(each) for each in attempt["tried"]]}
        pending = attempt["pending"]
        beside |= {"again": pending and {**pending, "tried": _tried(pending["failed"])}}
    if deadlines:
        beside |= {"timed_out": deadlines.pop("timed_out"), "deadlines": deadlines}
    beside |= {"stopped_by": cancellation["by"]} if cancellation else {}
    data |= {"schema": 1, "handle": {**handle, **{key: value for key, value in beside.items() if value}}}
    file.write_text(json.dumps(data), encoding="utf-8")
    return data


def _tried(failed: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in failed.items() if key != "handle"}


@needs_slurm
def test_a_job_on_slurm_is_followed_and_cancelled(cluster: Cluster):
    name = cluster.batch(HELD)
    as_0_1_0(cluster.local(name) / "record.json")
    cluster.until(name, lambda seen: seen["state"] == "running")
    as_0_1_0(cluster.local(name) / "record.json")
    cluster.log_has(name, "begun")
    cluster.nemotron("jobs", "cancel", name, "--grace", "1").succeeds()
    assert cluster.show(name)["states"][-1]["state"] == "cancelled"


@pytest.fixture
def site(lepton_lab, tmp_path) -> Site:
    found = make_site(lepton_lab, tmp_path)
    found.profile(AGAIN)
    return found


@needs_mounts
def test_a_job_on_a_cloud_is_submitted_again(site: Site):
    site.lab.scenario(None, "evicted", when="token 0")
    name = site.run("again", *var(STRUCK=0), mode="--batch").succeeds().out.strip()
    until(lambda: [job.state for job in site.lab.jobs], "its eviction", lambda states: states == ["Failed"])
    assert as_0_1_0(site.folder(name) / "record.json")["handle"]["attempts"] == 2
    site.nemotron("jobs", "wait", name).succeeds()
    assert [job.state for job in site.lab.jobs] == ["Failed", "Completed"]
    assert [each["kind"] for each in site.record(name)["attempt"]["tried"]] == ["eviction"]


@needs_mounts
def test_an_attempt_that_was_being_sent_is_sent(site: Site):
    site.lab.scenario(None, "evicted", when="token 0")
    name = site.run("again", *var(STRUCK=0), mode="--batch").succeeds().out.strip()
    until(lambda: [job.state for job in site.lab.jobs], "its eviction", lambda states: states == ["Failed"])
    broken = site.lab.fault("POST /jobs", "reset", times=None)
    site.nemotron("jobs", "status", name)
    assert as_0_1_0(site.folder(name) / "record.json")["handle"]["again"]["after"] == "eviction"
    broken.times = 0
    site.nemotron("jobs", "wait", name).succeeds()
    assert [job.state for job in site.lab.jobs] == ["Failed", "Completed"]


@needs_mounts
def test_a_job_on_a_cloud_that_was_asked_to_stop_has_stopped(site: Site):
    name = site.run("again", *var(SECONDS_TO_RUN=600), mode="--batch").succeeds().out.strip()
    until(lambda: site.state(name), "it", lambda state: state == "running")
    until(lambda: site.lab.jobs[0].state, "its run", lambda state: state == "Running")
    file = site.folder(name) / "record.json"
    data = as_0_1_0(file)
    data["handle"]["stopped_by"] = "me"
    file.write_text(json.dumps(data), encoding="utf-8")
    site.nemotron("jobs", "stop", name, "--grace", "0").succeeds()
    record = site.record(name)
    assert (record["states"][-1]["state"], record["cancellation"]["by"], len(site.lab.jobs)) == ("cancelled", "me", 1)
