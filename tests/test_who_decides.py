"""Who decides a job's state and exit code: the table is the page's, and each decision is taken once."""

from __future__ import annotations

import re
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest
from job_records import gone, record, stored
from support import REPOSITORY

from nemo_runspec.backends import shared_directory
from nemo_runspec.backends.docker.worker import DockerWorker
from nemo_runspec.records import JobStore
from nemo_runspec.records.settle import settled
from nemo_runspec.records.who_decides import WHO_DECIDES
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import NOT_RUN, MarkedEnd, NodeMarker, contradicts, marked_end, read_markers
from nemo_runspec.supervise.outcome import outcome_of

PAGE = (REPOSITORY / "docs/architecture.md").read_text("utf-8")


@pytest.mark.parametrize("who", sorted({who for decision in WHO_DECIDES for who in decision.who}))
def test_whoever_decides_is_there(who: str):
    module, _, function = who.partition(":")
    assert callable(attrgetter(function)(import_module(f"nemo_runspec.{module}")))


def test_the_page_has_the_same_steps_and_places_in_the_same_order():
    section = PAGE.partition("\n## Who decides\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]*?) ?\| [^|]+ \|$", section, re.MULTILINE)
    assert rows.pop(0) == ("step", "who")
    assert [(step, re.findall(r"`([^`]+)`", who)) for step, who in rows] == [
        (decision.step, [as_on_the_page(who) for who in decision.who]) for decision in WHO_DECIDES
    ]


def as_on_the_page(who: str) -> str:
    module, _, function = who.partition(":")
    return f"{module.replace('.', '/')}.py: {function}"


RAN, SET_UP = NodeMarker(0, 0), NodeMarker(0, 0, phase="setup")


@pytest.mark.parametrize(
    ("markers", "nodes", "end"),
    [
        ([], 1, NOT_RUN),
        ([RAN], 1, MarkedEnd(0)),
        ([SET_UP], 1, NOT_RUN),
        ([RAN], 2, NOT_RUN),
        ([RAN, NodeMarker(1, 0)], 2, MarkedEnd(0)),
        ([RAN, NodeMarker(1, 3, rank=9)], 2, MarkedEnd(3, None, "rank 9 ended with exit code 3")),
        ([NodeMarker(0, 137, signal=9)], 2, MarkedEnd(137, 9, "the command was killed by signal 9 (SIGKILL)")),
    ],
)
def test_what_the_nodes_of_a_success_say(markers: list[NodeMarker], nodes: int, end: MarkedEnd):
    assert marked_end(markers, nodes) == end


@pytest.mark.parametrize(
    ("markers", "nodes", "said"),
    [([], 1, False), ([RAN], 1, True), ([RAN], 2, False), ([RAN, NodeMarker(1, 1)], 2, False), ([RAN], 0, False)],
)
def test_what_contradicts_a_failure(markers: list[NodeMarker], nodes: int, said: bool):
    assert contradicts(markers, nodes) is said


TEXT = "node=0\nhost=h\nphase=setup\nexit_code=0\nsignal=\nrank=\noom=0\nreceived=\nreason=\nstarted=5\nended=9\n"
"""Of a node whose script has ended with 0, and before its command."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job's, whose script has ended with 0 and not run its command."""
    status = Path(JobLayout(str(tmp_path / "jobs" / "job")).status)
    status.mkdir(parents=True)
    (status / "node-0").write_text(TEXT)
    return status.parent


FAILED = ("failed", NOT_RUN.exit_code, NOT_RUN.cause)


def test_a_supervisor_says_that_the_command_did_not_run(folder: Path):
    (marker,) = read_markers(folder / "status")
    for left in (marker, None):
        found = outcome_of(0, left)
        assert (found.state, found.exit_code, found.cause) == FAILED


def test_so_does_the_record_of_a_job_whose_supervisor_is_gone(tmp_path: Path, folder: Path):
    store = JobStore(tmp_path / "jobs")
    stored(store, record("job", ("planned", "starting", "running"), launcher=gone()))
    found = settled(store, "job")
    assert (found.state, found.exit_code, found.cause) == FAILED


def test_so_does_docker(folder: Path):
    found = DockerWorker().status(record("job", ("planned", "running")), folder)
    assert (found.state, found.exit_code, found.reason) == FAILED


def test_so_does_a_directory_that_is_shared_with_the_job(folder: Path):
    found = shared_directory.ended(folder, 1, stopped=False)
    assert found is not None and (found.state, found.exit_code, found.reason) == FAILED
