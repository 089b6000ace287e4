"""What an attached run says of a job of pods: what they wait for, deadlines once, attempts once."""

from __future__ import annotations

from typing import Any

import pytest
from job_records import record

from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.status import JobStatus
from nemo_runspec.remote.display import Display


class Screen:
    """A display whose time stands still unless it is told."""

    def __init__(self, *, tty: bool = False, columns: int = 120) -> None:
        self.written = ""
        self.now = 1000.0
        self.display = Display(self.write, tty=tty, width=lambda: columns, now=lambda: self.now)

    def write(self, text: str) -> None:
        self.written += text

    def see(self, state: str, *, handle: dict[str, Any] | None = None, **facts: Any) -> None:
        job = record("job", ("planned", "queued"), executor="cloud", handle={"id": "j-1", **(handle or {})})
        self.display.seen(job, JobStatus(state, str(facts.get("waiting") or ""), facts=JobFacts("j-1", **facts)))

    @property
    def lines(self) -> list[str]:
        return [line.removeprefix("nemotron: ") for line in self.written.splitlines()]


def test_what_replicas_wait_for():
    screen = Screen()
    screen.see("starting", replicas="0 of 2 ready", waiting="pulling the image (2 of 2 nodes)")
    screen.see("starting", replicas="0 of 2 ready", waiting="node-1: pulling the image")
    screen.see("starting", replicas="1 of 2 ready", waiting="node-1: pulling the image")
    assert screen.lines == [
        "starting (j-1): 0 of 2 ready; pulling the image (2 of 2 nodes)",
        "starting (j-1): 0 of 2 ready; node-1: pulling the image",
    ], "a number alone is no news, at once"
    screen.now += 61
    screen.see("starting", replicas="1 of 2 ready", waiting="node-1: pulling the image")
    assert screen.lines[2:] == ["starting (j-1): 1 of 2 ready; node-1: pulling the image"]
    screen.see("running", nodes="node-0,node-1")
    assert screen.lines[-1] == "running on node-0,node-1"


def test_a_deadline_is_said_once():
    screen = Screen()
    for _ in range(3):
        screen.see("queued", waiting="no capacity", overdue="for longer than queue_timeout (15 min)")
    said = "job is queued for longer than queue_timeout (15 min); why: nemotron jobs diagnose job"
    assert screen.lines == [said, "queued (j-1): no capacity"]
    screen.see("starting", waiting="pulling the image", overdue="for longer than pull_timeout (30 min)")
    assert "job is starting for longer than pull_timeout (30 min)" in screen.written


def test_another_attempt_is_said_once():
    screen = Screen()
    screen.see("running", attempt=0, attempts=3, nodes="node-0")
    again = {"attempt": 1, "attempts": 3, "tried": [{"kind": "node", "what": "node-0 was lost"}]}
    for state in ("queued", "queued", "running"):
        screen.see(state, handle=again, attempt=1, attempts=3)
    assert screen.lines == [
        "running on node-0",
        "job: attempt 2 of 3 after: node-0 was lost",
        "requeued (j-1), attempt 2 of 3",
        "running, attempt 2 of 3",
    ]


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_in_one_line_of_a_terminal(columns):
    screen = Screen(tty=True, columns=columns)
    screen.see("starting", replicas="0 of 2 ready", waiting=f"the image cannot be pulled: {'because ' * 20}")
    line = screen.written.replace("\r\x1b[K", "")
    assert line.startswith("nemotron: starting (j-1)")
    assert len(line) < columns
