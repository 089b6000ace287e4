"""Records that an earlier release wrote (`make_records.py`): each is read, listed and shown as it was left."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nemo_runspec.planning.codec import load_plan
from nemo_runspec.records import JobStore
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
