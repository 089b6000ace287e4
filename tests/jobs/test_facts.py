"""What is known of a job beside its state."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from job_records import record
from support import REPOSITORY

from nemo_runspec.records.codec import from_json, to_dict, to_json
from nemo_runspec.records.facts import JobFacts, from_table, to_table
from nemo_runspec.records.lifecycle import Absence

ALL = JobFacts(
    id="7", nodes="n1", attempt=0, attempts=3, platform_state="PENDING", partition="gpu", position=1, queued=2,
    estimated=5.0, waiting="for nodes", replicas="1 of 2 ready", elapsed=1.5, phase="", phase_since=1.0, failing=True,
    failing_since=2.0, failed_for="5 min", overdue="for longer than queue_timeout", begun=True, unread="not yet",
    unanswered="its pods", absent=Absence(2, 1.0, 3.0, stop=True), asked="2026-01-02T03:04:05+00:00",
)  # fmt: skip
OLD = sorted((REPOSITORY / "tests" / "data" / "records" / "0.1.0").rglob("record.json"))


def test_all_that_is_known_is_stored_and_read_again():
    assert {each.name for each in fields(JobFacts)} == set(to_table(ALL)), "none of them is a default"
    assert from_json(to_json(record("job", facts=ALL))).facts == ALL


def test_what_is_not_known_is_not_stored():
    assert to_table(JobFacts()) == {}
    assert to_table(JobFacts(attempt=0, phase="")) == {"attempt": 0, "phase": ""}


def test_newer_facts_take_the_place_of_those_before():
    newer = JobFacts(nodes="n2", attempt=0, phase="")
    found = JobFacts(id="7", nodes="n1", attempt=2, phase="pull", waiting="x").updated(newer)
    assert found == JobFacts(id="7", nodes="n2", attempt=0, phase="", waiting="x")


@pytest.mark.parametrize("odd", [3.5, True, [], {}, "x", None, 10**400])
def test_what_an_odd_hand_has_written_is_not_known(odd):
    """Each is what some of the fields may be, and others not: those are left out, and the record is read."""
    table = {each.name: odd for each in fields(JobFacts)}
    kept = to_table(from_table(table))
    assert kept.items() <= table.items()
    assert from_table(kept) == from_table(table)
    text = json.dumps({**to_dict(record("job")), "facts": table})
    assert to_json(from_json(text))


@pytest.mark.parametrize("file", OLD, ids=lambda file: file.parent.name)
def test_all_facts_of_earlier_records_are_read(file):
    text = file.read_text(encoding="utf-8")
    before = {("platform_state" if key == "slurm_state" else key): v for key, v in json.loads(text)["facts"].items()}
    assert to_table(from_json(text).facts) == before
