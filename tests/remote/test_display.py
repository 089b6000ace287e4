"""What an attached run says beside its job's log, on a terminal and elsewhere."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from job_records import record

from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.status import JobStatus
from nemo_runspec.remote.display import Display, clock, closing_lines, span

NOON = 1_795_176_000.0  # 2026-11-20 12:00 UTC


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zone that nobody's computer is in by chance."""
    monkeypatch.setenv("TZ", "<+0530>-05:30")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@dataclass
class Screen:
    """What came out, and the display that wrote it."""

    tty: bool = False
    width: int = 120
    time: float = NOON
    text: str = ""
    job: object = field(default_factory=lambda: record("job-1"))

    def __post_init__(self) -> None:
        self.display = Display(self.write, tty=self.tty, width=lambda: self.width, now=lambda: self.time)

    def write(self, text: str) -> None:
        self.text += text

    def sees(self, state: str, after: float = 0.0, *, reason: str = "", **facts: Any) -> None:
        self.time += after
        self.display.seen(self.job, JobStatus(state, reason, facts=JobFacts("12", **facts)))

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def on_screen(self) -> list[str]:
        """What a terminal shows of it: a line that is erased is empty again."""
        return [re.split(r"\r\x1b\[K", line)[-1] for line in self.text.split("\n")]


WAITING = {"position": 3, "queued": 17, "partition": "batch", "waiting": "waits for nodes"}


def test_a_line_for_every_change():
    screen = Screen()
    screen.sees("queued", **WAITING, estimated=NOON + 740)
    screen.sees("starting", 700, nodes="n[1-4]", reason="its nodes are being made ready")
    for _ in range(3):
        screen.sees("running", 10, nodes="n[1-4]")
    screen.sees("queued", 3600, attempt=1, attempts=4, waiting="waits for its begin, as after a requeue")
    screen.sees("running", 60, nodes="n[2-5]", attempt=1, attempts=4)
    screen.sees("unknown", 60, reason="Slurm does not answer (Socket timed out)")
    screen.sees("running", 60, nodes="n[2-5]", attempt=1, attempts=4)
    screen.sees("succeeded", 60)
    assert screen.lines == [
        "nemotron: queued (12): position 3 of 17 in batch, waits for nodes; estimated start 17:42 (in 12 min)",
        "nemotron: starting on n[1-4]: its nodes are being made ready",
        "nemotron: running on n[1-4]",
        "nemotron: requeued (12), attempt 2 of 4: waits for its begin, as after a requeue",
        "nemotron: running on n[2-5], attempt 2 of 4",
        "nemotron: its state is not known: Slurm does not answer (Socket timed out)",
        "nemotron: running on n[2-5], attempt 2 of 4",
    ]


def test_a_long_queue_says_little():
    """A day in it, looked at three times a minute: not every new place, and hardly ever a new estimate."""
    screen = Screen()
    for look in range(3 * 60 * 24):
        screen.sees("queued", 20, **{**WAITING, "position": 200 - look // 180}, estimated=NOON + 2 * 86400 + look * 7)
    assert 25 < len(screen.lines) < 170
    moves = Screen()
    for place in range(100, 0, -1):
        moves.sees("queued", 2, **{**WAITING, "position": place})
    assert len(moves.lines) == 4
    moves.sees("queued", 1, **{**WAITING, "waiting": "held by an administrator"})
    assert moves.lines[-1].endswith("held by an administrator"), "a reason is news at once"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 200])
def test_a_terminal_renews_its_line(width: int):
    screen = Screen(tty=True, width=width)
    for step in range(5):
        screen.sees("queued", 20, **{**WAITING, "position": 5 - step}, estimated=NOON + 740)
        assert len(screen.on_screen()) == 1
        assert len(screen.on_screen()[0]) < width
    screen.sees("running", 20, nodes="n1")
    assert screen.on_screen() == ["nemotron: running on n1", ""]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (120, "nemotron: queued (12): position 3 of 17 in batch, waits for nodes; estimated start 17:42 (in 12 min)"),
        (80, "nemotron: queued (12): position 3 of 17, waits for nodes; start 17:42"),
        (60, "nemotron: queued (12): 3 of 17, waits for nodes; start 17:42"),
        (59, "nemotron: queued (12): 3 of 17, waits for nod…; start 17:42"),
        (45, "nemotron: queued (12): waits for nodes"),
        (30, "nemotron: queued (12): waits…"),
    ],
)
def test_what_a_narrow_terminal_leaves_out(width: int, shown: str):
    screen = Screen(tty=True, width=width + 1)
    screen.sees("queued", **WAITING, estimated=NOON + 740)
    assert screen.on_screen() == [shown]


def test_log_output_takes_the_line_away():
    screen = Screen(tty=True)
    screen.sees("queued", **WAITING)
    screen.display.clear()
    screen.write("[rank0] hello\n")
    screen.display.clear()
    assert screen.on_screen() == ["[rank0] hello", ""]
    assert screen.text.count("\x1b") == 2, "a line that is not there needs no erasing"


def test_elsewhere_nothing_drives_a_terminal():
    screen = Screen()
    screen.sees("queued", **{**WAITING, "waiting": "odd \x1b[31m\nreason"})
    screen.display.trouble("lab does not\x07 answer")
    screen.display.clear()
    assert "\x1b" not in screen.text and "\x07" not in screen.text
    assert len(screen.lines) == 2


def test_a_lost_connection():
    screen = Screen(tty=True)
    screen.sees("queued", **WAITING)
    for _ in range(5):
        screen.time += 30
        screen.display.trouble("lab does not answer")
    screen.time += 35
    screen.display.recovered()
    screen.display.recovered()
    screen.sees("queued", **WAITING)
    assert screen.on_screen() == [
        "nemotron: lab does not answer; the job is not touched by that, asking again",
        "nemotron: connected again, after 2 min 35 s",
        "nemotron: queued (12): position 3 of 17 in batch, waits for nodes",
    ]


def test_an_estimate_that_is_past_is_none():
    screen = Screen()
    screen.sees("queued", **WAITING, estimated=NOON - 5)
    assert screen.lines == ["nemotron: queued (12): position 3 of 17 in batch, waits for nodes"]


def test_how_it_ended():
    diagnosis = {
        "kind": "out of memory",
        "what": "rank 3 ran out of GPU memory",
        "evidence": "torch.OutOfMemoryError: CUDA out of memory. " + "x" * 200,
        "remedy": "make the batch smaller",
    }
    made = record(
        "job-1",
        ("queued", "running", ("failed", "rank 3 ended with exit code 1")),
        elapsed=7384.2,
        exit_code=1,
        facts=JobFacts(nodes="n[1-4]", attempt=1),
        diagnosis=diagnosis,
        outputs={"model": "/out/model"},
    )
    shown = closing_lines(made, 80)
    assert shown == [
        "job-1: failed after 2 h 3 min on n[1-4], attempt 2, exit code 1",
        "  diagnosis   rank 3 ran out of GPU memory",
        "  seen in     torch.OutOfMemoryError: CUDA out of memory. " + "x" * 21 + "…",
        "  what to do  make the batch smaller",
        "  model: /out/model",
    ]
    assert closing_lines(made)[2].endswith("x" * 200), "a file has no width"
    screen = Screen(tty=True, width=80)
    screen.sees("queued", **WAITING)
    screen.display.ended(made)
    assert screen.on_screen() == [*shown, ""]


def test_how_it_ended_without_a_diagnosis():
    cancelled = record("job-1", ("running", ("cancelled", "cancelled by Ctrl-C")), elapsed=4.2, exit_code=143)
    assert closing_lines(cancelled) == ["job-1: cancelled after 4 s, exit code 143: cancelled by Ctrl-C"]
    assert closing_lines(record("job-1", ("running", "succeeded"), elapsed=60, exit_code=0)) == [
        "job-1: succeeded after 1 min, exit code 0"
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (-3, "0 s"), (59.4, "59 s"), (60, "1 min"), (724, "12 min 4 s"), (3600, "1 h"), (187_200, "2 d 4 h")],
)
def test_spans(seconds: float, text: str):
    assert span(seconds) == text


def test_times_are_local():
    assert clock(NOON, NOON) == "17:30"
    assert clock(NOON + 86400, NOON) == "Sat 17:30"
    assert clock(NOON + 7 * 86400, NOON) == "2026-11-27 17:30"
