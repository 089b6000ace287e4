"""What is seen while a sweep runs, at the widths terminals have."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pytest
from rich.console import Console
from sweep_records import member, sweep_of

from nemotron.cli import sweep_display
from nemotron.cli.sweep_display import LiveDisplay, SweepDisplay


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Time stands still, however long a test takes."""
    monkeypatch.setattr(sweep_display, "time", SimpleNamespace(monotonic=lambda: 1000.0))


def running(tmp_path, size, steps=True):
    overrides = [{"optimizer.lr": f"{i + 1}e-4", "rng.seed": "1", "model.name": "n" * 40} for i in range(size)]
    members = [member(i, each, state=None, top=tmp_path) for i, each in enumerate(overrides)]
    for each in members if steps else []:
        each.metrics_file.parent.mkdir(parents=True)
        row = {"step": 75, "total_steps": 150, "loss": 2.51239, "tokens_per_second": 81234.5}
        each.metrics_file.write_text(json.dumps(row) + "\n")
    return members


def drawn(members, tmp_path, columns, lines=30, total=20):
    console = Console(file=io.StringIO(), width=columns, height=lines, force_terminal=True, color_system=None)
    display = LiveDisplay(sweep_of(*members), list(members[0].overrides), total, console)
    for each in members:
        display.started(each)
    display.tally = {"succeeded": 4, "failed": 1}
    display._drawn = 0.0
    display.tick()
    console.file = io.StringIO()
    console.print(display.render())
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("columns", [80, 120])
def test_one_line_for_each_that_runs(tmp_path, columns):
    rows = drawn(running(tmp_path, 3), tmp_path, columns)
    assert len(rows) == 4
    assert all(len(row) <= columns for row in rows)
    for number, row in enumerate(rows[:3]):
        assert row.startswith(f"#{number} ")
        assert f"lr={number + 1}e-4" in row
        assert "75/150" in row
        assert "loss 2.5124" in row
    assert rows[3].startswith("3 running   4 done   1 failed   12 left   0:00:00")


def test_cancelled_runs_have_not_failed():
    display = LiveDisplay(sweep_of(), [], 4, Console(file=io.StringIO(), width=80))
    display.tally = {"cancelled": 2, "succeeded": 1}
    assert display._footer(0).plain.startswith("0 running   1 done   0 failed   2 cancelled   1 left")


def test_more_than_fit_on_the_terminal(tmp_path):
    rows = drawn(running(tmp_path, 20, steps=False), tmp_path, 80, lines=10)
    assert len(rows) == 7
    assert rows[-1].startswith("and 14 more   20 running")
    assert "starting" in rows[0]


def test_nobody_knows_how_many_there_will_be(tmp_path):
    assert "left" not in drawn(running(tmp_path, 2), tmp_path, 80, total=None)[-1]


def test_plain_lines(tmp_path, capsys):
    first, second = running(tmp_path, 2)
    with SweepDisplay(sweep_of(first, second, max_parallel=2), ["optimizer.lr"], 2) as display:
        display.started(first)
        display.said(first, f"{first.name}: running mine/train; log: …")
        display.said(first, "3 uncommitted files are not sent\x1b[2J")
        display.said(second, "3 uncommitted files are not sent\x1b[2J")
        display.ended(member(0, first.overrides, {"loss": 2.5, "step": 3}))
        display.ended(member(1, second.overrides, state="failed", cause="exit code 3\nmore"))
    assert capsys.readouterr().err.splitlines() == [
        "sweep-test-1121-abcdefgh: 2 runs of mine/train, 2 at a time",
        "#0 started    lr=1e-4   job-0",
        "#0 3 uncommitted files are not sent\\x1b[2J",
        "#0 succeeded  lr=1e-4   loss 2.5000   10.0 s",
        "#1 failed     lr=2e-4   exit code 3   11.0 s",
    ]
