"""Slurm's words in ours."""

from __future__ import annotations

import pytest

from nemo_runspec.backends.slurm.cluster.job import STATES, state_of, why_it_waits
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
    assert why_it_waits(reason) == words
