"""Slurm's words in ours."""

from __future__ import annotations

import pytest

from nemo_runspec.backends.slurm.cluster.job import REASONS, STATES, reason_of, state_of
from nemo_runspec.backends.slurm.diagnose import CAUSES
from nemo_runspec.records.record import STATES as OURS


def test_every_meaning_is_a_state_of_ours():
    assert {meaning.state for meaning in STATES.values()} <= set(OURS)


def test_what_is_over_has_ended():
    for name, meaning in STATES.items():
        ended = OURS[meaning.state].final
        assert meaning.over == ended, name


@pytest.mark.parametrize(
    ("said", "state"),
    [("CANCELLED by 1000", "cancelled"), ("CANCELLED+", "cancelled"), ("OUT_OF_MEMORY", "failed"), ("", "unknown"),
     ("NEW_THING", "unknown"), ("COMPLETING", "running"), ("REQUEUE_HOLD", "queued")],
)  # fmt: skip
def test_a_state(said: str, state: str):
    assert state_of(said).state == state


def test_a_state_of_tomorrow_is_named():
    assert "NEW_THING" in state_of("NEW_THING").reason


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("None", ""), ("Resources", "waits for nodes"), ("QOSMaxJobsPerUserLimit", "a limit of its QoS is reached"),
        ("AssocGrpGRES", "a limit of its account or user is reached"), ("Something", "Something"),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-4]", "nodes it needs are not available (down, drained or reserved)"),
        ("DependencyNeverSatisfied", "waits for a job that ended otherwise: it will never start; cancel it"),
    ],
)  # fmt: skip
def test_a_reason(reason: str, words: str):
    assert reason_of(reason).words == words


@pytest.mark.parametrize(("word", "held"), [("JobHeldUser", True), ("Priority", False), ("held by whomever", False)])
def test_whether_a_job_is_held_is_no_matter_of_words(word: str, held: bool):
    assert reason_of(word).held is held


def test_every_row_names_a_cause_that_there_is():
    named = {row.cause for row in (*STATES.values(), *REASONS) if row.cause}
    assert named == set(CAUSES)
