"""A job that runs, and a platform that says now and then that it does not: the same tests for every cloud.

A suite makes a subclass of `Absences` with a fixture `away`. Time passes by making what the records hold older, or, for
a process that waits by itself, by `HURRIED`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest
from labs.web import Fault, WebLab
from support import Outcome, Project
from waiting import until

HURRIED = """\
from nemo_runspec.records import absence
absence.SPAN, absence.APART = 2.0, 0.5
"""
"""A `sitecustomize.py`: a minute is two seconds for who decides whether an absence lasts."""

SCRIPT = """\
import os, pathlib, sys, time
print("ready", flush=True)
while not pathlib.Path("{gate}").exists():
    time.sleep(0.05)
print("last line", flush=True)
sys.exit(int(os.environ.get("CODE", "0")))
"""

STRAYS = ("404", "400", "410", "garbage", "empty", "null", "list", "object", "word")
"""Ways in which an answer says nothing, or something that is not so."""


class Site(Protocol):
    """A project whose jobs go to a cloud of a lab."""

    project: Project

    def nemotron(self, *args: str, **environment: str) -> Outcome:
        """`nemotron ARGS`."""

    def record(self, name: str) -> dict[str, Any]:
        """A job as it is on record."""


@dataclass
class Away:
    """A job that its platform can be made to deny.

    Args:
        path: of a job, by its id. `listed`: of the list. `deletes`: of a job that is deleted there, by its id.
        batch: submits the script, with `CODE`; the job's name. `attached`: runs it attached.
        opened: lets it end. `alive`: how many of its containers run.
    """

    site: Site
    lab: WebLab
    path: str
    listed: str
    batch: Callable[[int], str]
    attached: Callable[[int], subprocess.Popen[str]]
    opened: Callable[[], None]
    alive: Callable[[], int]
    ended: Callable[[subprocess.Popen[str]], Outcome]
    faults: list[Fault] = field(default_factory=list)

    def started(self, code: int = 0) -> str:
        """A job that runs, and is on record as running."""
        name = self.batch(code)
        until(lambda: self.status(name)["state"], name, lambda state: state == "running")
        return name

    def status(self, name: str) -> dict[str, Any]:
        """What `jobs status` says."""
        return dict(self.site.nemotron("jobs", "status", name, "--json").succeeds().json[0])

    def id(self, name: str) -> str:
        """What the platform calls it."""
        return str(self.site.record(name)["handle"]["id"])

    def odd(self, match: str, kind: str, times: int | None = 1) -> Fault:
        """Breaks answers."""
        fault = self.lab.fault(f"GET {match}", kind, times=times)
        self.faults.append(fault)
        return fault

    def denied(self, id: str = "*", times: int | None = None) -> None:
        """From now on it is neither in a list nor to be found by its id."""
        self.odd(self.path.format(id=id), "404", times)
        self.odd(self.listed, "emptied", times)

    def back(self) -> None:
        """All answers are true again."""
        for fault in self.faults:
            fault.times = 0

    def later(self, name: str) -> None:
        """As `later`."""
        later(self.site, name)

    def lost(self, said: str = "") -> str:
        """A job that runs, and is on record as lost: its platform has denied it for long enough.

        Args:
            said: what is in its log before that; a command begins some time after its container runs.
        """
        name = self.started()
        if said:
            until(lambda: self.site.nemotron("jobs", "logs", name).out, f"{said!r}", lambda log: said in log)
        self.denied(self.id(name))
        for _ in range(2):
            assert self.status(name)["state"] == "unknown"
            self.later(name)
        assert self.status(name)["state"] == "lost"
        return name

    def folder(self, name: str) -> Path:
        """Its folder here."""
        return self.site.project.state / "jobs" / name


def later(site: Site, name: str, seconds: float = 61.0) -> None:
    """Time passes: what is on record of an absence, of a request that was sent, and of the job's states, is older."""
    record = site.record(name)
    for state in record["states"]:
        state["time"] = _earlier(state["time"], seconds)
    told = record["facts"].get("absent") or {}
    told |= {key: told[key] - seconds for key in ("first", "last") if key in told}
    record |= {"sent": record["sent"] - seconds} if record.get("sent") else {}
    (site.project.state / "jobs" / name / "record.json").write_text(json.dumps(record), encoding="utf-8")


def hurried(project: Project, folder: Path) -> None:
    """Makes a minute two seconds long for processes of this project."""
    (folder / "hurried").mkdir()
    (folder / "hurried" / "sitecustomize.py").write_text(HURRIED)
    project.extra["PYTHONPATH"] = str(folder / "hurried")


class Absences:
    """The tests."""

    @pytest.mark.parametrize("kind", STRAYS)
    def test_one_stray_answer_is_not_the_truth(self, away: Away, kind: str):
        """By its id, and of the list: nothing is lost, and afterwards the job is what it was, for as long as it was."""
        name = away.started(code=6)
        began = away.site.record(name)["states"]
        for match in (away.path.format(id=away.id(name)), away.listed):
            away.odd(match, kind)
            seen = away.status(name)
            assert seen["state"] in ("running", "unknown"), seen
        away.back()
        now = away.status(name)
        assert now["state"] == "running"
        assert now["states"][: len(began)] == began
        away.opened()
        assert away.site.nemotron("jobs", "wait", name).code == 6

    def test_an_absence_of_one_moment_counts_once(self, away: Away):
        """However often it is asked in that moment; what finds the job undoes it."""
        name = away.started()
        away.denied(away.id(name))
        seen = [away.status(name) for _ in range(4)]
        assert {each["state"] for each in seen} == {"unknown"}
        assert "believed once three looks over a minute agree" in seen[0]["states"][-1]["reason"]
        assert seen[-1]["facts"]["absent"]["looks"] == 1
        away.later(name)
        assert away.status(name)["facts"]["absent"]["looks"] == 2
        away.back()
        assert "absent" not in away.status(name)["facts"]

    def test_a_job_that_comes_back_is_what_it_is(self, away: Away):
        """`status` without names still asks about it; its time is that since it began, not since it was seen again."""
        name = away.lost(said="ready")
        ids = away.id(name)
        assert away.site.nemotron("jobs", "wait", name).code == 1
        told = away.site.nemotron("jobs", "logs", name).succeeds()
        assert f"{name} is lost: " in told.err
        assert "ready" in told.out
        away.back()
        table = away.site.nemotron("jobs", "status").succeeds().out
        [row] = [line for line in table.splitlines() if line.startswith(name)]
        assert row.split()[1] == "running"
        assert int(row.split()[3].partition(":")[0]) >= 2, f"two minutes and more: {row}"
        away.opened()
        assert away.site.nemotron("jobs", "wait", name).succeeds()
        record = away.site.record(name)
        assert (record["handle"]["id"], record["states"][-1]["state"]) == (ids, "succeeded")

    @pytest.mark.parametrize("command", ["cancel", "stop"])
    def test_a_lost_job_that_is_there_is_ended(self, away: Away, command: str):
        name = away.lost()
        away.back()
        done = away.site.nemotron("jobs", command, name, "--grace", "5")
        assert done.code == 0, done.err
        assert f"{name}: cancelled" in done.out
        until(away.alive, "the end of its containers", lambda many: many == 0)

    @pytest.mark.parametrize("command", ["retry", "rm"])
    def test_a_lost_job_that_is_there_is_neither_repeated_nor_removed(self, away: Away, command: str):
        name = away.lost()
        away.back()
        away.site.nemotron("jobs", command, name).refuses(f"'{name}' is running", "end it first")
        assert away.folder(name).is_dir()
        assert away.alive() == 1

    def test_removal_by_state_leaves_a_lost_job_that_is_there(self, away: Away):
        name = away.lost()
        away.back()
        done = away.site.nemotron("jobs", "rm", "--state", "lost").succeeds()
        assert "0 jobs removed" in done.out
        assert away.folder(name).is_dir()

    @pytest.mark.parametrize("command", ["cancel", "stop", "retry", "rm"])
    def test_a_lost_job_that_cannot_be_asked_about_is_left(self, away: Away, command: str):
        name = away.lost()
        away.back()
        away.odd("*", "403", None)
        done = away.site.nemotron("jobs", command, name)
        assert done.code == 2
        assert "HTTP 403" in done.err
        assert "already" not in done.out
        assert away.site.record(name)["states"][-1]["state"] == "lost"
        if command == "rm":
            assert away.site.nemotron("jobs", "rm", "--state", "lost").code == 2
            assert away.folder(name).is_dir()
        assert away.alive() == 1

    def test_a_lost_job_that_is_gone_stays_lost(self, away: Away):
        name = away.lost()
        done = away.site.nemotron("jobs", "cancel", name).succeeds()
        assert f"{name}: already lost" in done.out
        away.site.nemotron("jobs", "rm", "--force", name).succeeds()  # of its files there nothing is seen from here
        assert not away.folder(name).exists()

    def test_an_attached_run_outlives_an_absence(self, away: Away):
        child = away.attached(7)
        until(away.alive, "its container")
        name = until(lambda: [each.name for each in (away.site.project.state / "jobs").iterdir()], "its record")[0]
        until(lambda: away.site.record(name)["states"][-1]["state"], name, lambda state: state == "running")
        away.denied(away.id(name), times=2)
        until(lambda: away.faults[0].times == 0, "it was denied")
        assert child.poll() is None
        away.opened()
        told = away.ended(child)
        assert told.code == 7, told.err
        assert told.out.count("last line") == 1

    @pytest.mark.parametrize("status", ["400", "405", "410", "451"])
    def test_an_attached_run_outlives_a_refusal_of_something_between(self, away: Away, status: str):
        """A gateway that takes no question for a moment says nothing of the job."""
        child = away.attached(7)
        until(away.alive, "its container")
        name = until(lambda: [each.name for each in (away.site.project.state / "jobs").iterdir()], "its record")[0]
        until(lambda: away.site.record(name)["states"][-1]["state"], name, lambda state: state == "running")
        for match in (away.path.format(id=away.id(name)), away.listed):
            away.odd(match, status)
        away.opened()
        told = away.ended(child)
        assert told.code == 7, told.err
        assert away.faults[0].times == 0, "it was never refused"

    def test_who_waits_finds_out_by_himself_that_it_is_gone(self, away: Away, tmp_path: Path):
        name = away.started()
        away.denied(away.id(name))
        hurried(away.site.project, tmp_path)
        waited = away.site.nemotron("jobs", "wait", name)
        assert waited.code == 1, waited.err
        assert f"{name}: lost: " in waited.out
        record = away.site.record(name)
        told = record["facts"]["absent"]
        assert told["looks"] >= 3
        assert told["last"] - told["first"] >= 2.0

    def test_what_cannot_be_asked_about_is_marked(self, away: Away):
        """Every row says so, and since when; the exit code is 3 where nobody could be asked."""
        name = away.started()
        away.odd("*", "403", None)
        told = away.site.nemotron("jobs", "status", name, "--json")
        assert told.code == 3, told.err
        [row] = told.json
        assert row["state"] == "running"
        assert "HTTP 403" in row["stale"]["why"]
        assert row["stale"]["since"] >= row["states"][-1]["time"]
        table = away.site.nemotron("jobs", "status")
        assert table.code == 3
        assert f"{name}  running (stale" in table.out
        assert "not asked now: " in table.out
        away.back()
        assert away.status(name)["stale"] is None


def _earlier(time: str, seconds: float) -> str:
    return (datetime.fromisoformat(time) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
