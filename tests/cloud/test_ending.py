"""How a job ended: its nodes' own word counts, then the platform's; what cannot be read yet stays open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemo_runspec.backends.cloud.ending import NOT_YET, LastLines, conclude, read_last_lines
from nemo_runspec.backends.cloud.optional_requests import OptionalRequests
from nemo_runspec.errors import UserError
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.markers import NodeMarker, contradiction


def ends(*codes: int) -> dict[int, NodeMarker]:
    return {node: NodeMarker(node, code, host=f"machine-{node}") for node, code in enumerate(codes)}


def ended(state: str, lines: LastLines, code: int | None = None, nodes: int = 2) -> JobStatus:
    def says(status: JobStatus) -> JobStatus:
        return replace(status, reason="its words", exit_code=code)

    return conclude(
        JobStatus(state),
        {"nodes": nodes},
        lines,
        "It",
        says,
        lambda seen: replace(seen, reason=f"{seen.reason}; no code"),
    )


@pytest.mark.parametrize("state", ["succeeded", "failed"])
def test_a_node_that_says_that_it_failed_is_believed(state):
    found = ended(state, LastLines(ends=ends(0, 7)), code=137)
    assert (found.state, found.exit_code, found.facts.nodes) == ("failed", 7, "machine-1")


def test_a_success():
    found = ended("succeeded", LastLines(ends=ends(0)))
    assert (found.state, found.exit_code, found.facts.unread) == ("succeeded", 0, "")
    found = ended("succeeded", LastLines(unread=NOT_YET))
    assert (found.state, found.exit_code, found.facts.unread) == ("succeeded", 0, NOT_YET)


@pytest.mark.parametrize("unread", ["", NOT_YET])
def test_what_the_platform_says_of_a_failure(unread):
    found = ended("failed", LastLines(unread=unread), code=137)
    assert (found.exit_code, found.reason, found.facts.unread) == (137, "its words", "")


def test_a_failure_of_the_platform_itself():
    found = ended("failed", LastLines(ends=ends(0, 0)))
    assert (found.exit_code, found.reason) == (1, contradiction("It"))


def test_a_failure_that_nobody_explains():
    found = ended("failed", LastLines(ends=ends(0)))
    assert (found.exit_code, found.reason) == (1, "its words; no code")
    found = ended("failed", LastLines(ends=ends(0), unread=NOT_YET))
    assert (found.exit_code, found.facts.unread) == (None, NOT_YET)


@pytest.mark.parametrize("state", ["cancelled", "lost", "unknown"])
def test_any_other_is_left_as_it_is(state):
    assert ended(state, LastLines(ends=ends(7, 7)), code=7) == JobStatus(state)


END = b"nemotron-end: node=0 attempt=%d exit_code=7 signal= rank= oom=0 phase=command lines=0 node_name=m reason=\n"


def test_lines_that_come_late_are_waited_for_and_those_of_another_attempt_do_not_count():
    logs = {0: [b"", END % 0], 1: [END % 0, END % 1], 2: [b""] * 3}
    slept: list[float] = []
    found = read_last_lines(
        {0: {"attempt": 0}, 1: {"attempt": 1}, 2: {}},
        OptionalRequests("it"),
        lambda n: logs[n].pop(0),
        lambda n, lines: not lines.ends,
        (0.0, 1.0, 2.0),
        slept.append,
    )
    assert {n: lines.unread for n, lines in found.items()} == {0: "", 1: "", 2: NOT_YET}
    assert (found[0].failed, found[1].failed, slept, logs) == (True, True, [0.0, 1.0, 2.0], {0: [], 1: [], 2: []})


def test_a_log_that_is_not_answered_is_not_waited_for():
    def refused(n: int) -> bytes:
        raise UserError("closed")

    found = read_last_lines({0: {}}, OptionalRequests("it"), refused, lambda n, lines: True, (0.0, 1.0), lambda _: None)
    assert found == {0: LastLines(unread="closed")}
