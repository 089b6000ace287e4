"""Records that an earlier release wrote (`make_records.py`): each is read, listed and shown as it was left."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nemo_runspec.planning.codec import load_plan
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.codec import from_json, to_json

RELEASES = Path(__file__).parents[1] / "data" / "records"
CASES = sorted(case for release in RELEASES.iterdir() for case in release.iterdir())
FILES = sorted(RELEASES.glob("*/*/jobs/*/record.json"))


def name_of(path: Path) -> str:
    return "-".join(path.relative_to(RELEASES).parts[:2])


@pytest.fixture(params=CASES, ids=name_of)
def case(request, project):
    """A project whose jobs and sweeps are those of a case; its folder."""
    project.state.mkdir(exist_ok=True)
    for kind in ("jobs", "sweeps"):
        if (request.param / kind).exists():
            shutil.copytree(request.param / kind, project.state / kind)
    return request.param


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_record_is_read_and_what_is_written_of_it_is_read_too(file):
    record = from_json(file.read_text())
    assert record.states[-1].state == json.loads(file.read_text())["states"][-1]["state"]
    assert from_json(to_json(record)) == record


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_its_directory_is_a_field_of_its_own(file):
    assert from_json(file.read_text()).job_dir == json.loads(file.read_text())["handle"].get("job_dir", "")


def test_its_plan_is_read(case):
    for file in case.glob("jobs/*/plan.json"):
        assert load_plan(file).name == file.parent.name


def test_it_is_listed_and_shown(case, project, nemotron):
    names = {path.name for path in (case / "jobs").iterdir()}
    rows = nemotron("jobs", "list", "--json").succeeds().json
    shown = {row["name"] for row in rows}
    for sweep in (case / "sweeps").glob("*"):
        assert sweep.name in shown
        shown |= {row["name"] for row in nemotron("jobs", "list", "--group", sweep.name, "--json").succeeds().json}
    assert names <= shown
    for name in names:
        assert nemotron("jobs", "show", name).succeeds().out.startswith(f"{name}  ")
        assert JobStore().by_name(name).recipe


def read(case: str) -> JobRecord:
    [file] = RELEASES.glob(f"0.1.0/{case}/jobs/*/record.json")
    return from_json(file.read_text())


@pytest.mark.parametrize("case", ["dgxcloud-pending-attempt", "lepton-pending-attempt"])
def test_an_attempt_that_was_being_submitted_is_known(case):
    """Which one failed and why, and when the next was sent: whoever asks next goes on there."""
    attempt = read(case).attempt
    assert (attempt.number, attempt.limit, attempt.tried) == (0, 3, ())
    failed = attempt.pending.failed
    assert (failed.kind, attempt.pending.after) == ("eviction", "eviction")
    assert failed.id == failed.handle["id"] == read(case).id
    assert attempt.pending.sent > 1.7e9


def test_a_requeued_job_of_slurm_is_in_its_second_attempt():
    waits, runs = read("slurm-requeued"), read("slurm-second-attempt")
    assert waits.name == runs.name
    assert (waits.state, waits.facts.attempt, waits.facts.platform_state) == ("queued", 1, "PENDING")
    assert (waits.facts.position, waits.facts.waiting) == (1, "waits for its begin, as after a requeue")
    assert (runs.state, runs.facts.attempt, runs.facts.platform_state) == ("running", 1, "RUNNING")
    assert (waits.attempt, runs.facts.nodes) == (None, "n1"), "Slurm counts by itself"
