"""Jobs of which one answer was odd: no deadline begins anew for that, and what was read too early is corrected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from job_records import record, stored

from nemo_runspec.backends.provider import Handle, Results
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.status import JobStatus
from nemo_runspec.remote import input_jobs
from nemo_runspec.remote.deadlines import timed
from nemo_runspec.remote.input_jobs import only_for
from nemo_runspec.remote.late_results import read_again
from nemo_runspec.remote.refresh import _as_begun
from nemo_runspec.remote.unconfirmed import id_in
from nemo_runspec.remote.wait import exit_code_of
from nemo_runspec.transport.base import Unreachable
from nemotron.cli import main

HALF = JobStatus("starting", facts=JobFacts(begun=True, phase="start", waiting="1 of 2 ready"))


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path / "jobs")


def job(store: JobStore, *states: str, name: str = "job", **values: Any) -> JobRecord:
    handle = {"name": name, "id": "j-1", "deadlines": {"start": 60, "pull": 60}, **values.pop("handle", {})}
    return stored(store, record(name, ("planned", "submitting", *states), executor="cloud", handle=handle, **values))


@pytest.mark.parametrize("doubt", [(), ("unknown",), ("lost",), ("unknown", "lost")])
def test_a_job_that_ran_does_not_start_again_after_a_doubt(store, doubt):
    seen = _as_begun(job(store, "queued", "running", *doubt), HALF)
    assert (seen.state, seen.facts.phase) == ("running", None)
    assert _as_begun(job(store, "queued", *doubt, name="young"), HALF).state == "starting"


def test_a_deadline_goes_on_over_a_doubt(store):
    waiting = job(store, "queued", "starting", "unknown", facts=JobFacts(phase="pull", phase_since=100.0))
    seen = timed(waiting, JobStatus("starting", facts=JobFacts()), 130.0)
    assert (seen.facts.phase, seen.facts.phase_since) == ("pull", 100.0)


class Platform:
    """A platform that says of every job the same."""

    def __init__(self, seen: JobStatus) -> None:
        self.seen = seen

    def status(self, handles: Sequence[Handle], *, places: bool = False) -> list[JobStatus]:
        return [self.seen for _ in handles]

    def collect(self, handles: Sequence[Handle], seen: Sequence[JobStatus]) -> list[Results]:
        return [Results(inputs={"data": "/store/data/v1"}) for _ in handles]


def told(monkeypatch: pytest.MonkeyPatch, module: Any, seen: JobStatus) -> None:
    monkeypatch.setattr(module, "get_backend", lambda _: SimpleNamespace(load_provider=lambda: Platform(seen)))


def reread(store: JobStore, ended: JobRecord, seen: JobStatus) -> JobRecord:
    """An ended job, once its platform says this of it."""
    return read_again(store, Platform(seen), [(ended, seen)])[ended.name][0]


def test_a_success_may_turn_out_as_the_failure_that_its_nodes_tell_of(store):
    ended = job(store, "running", "succeeded", exit_code=0, facts=JobFacts(unread="its log could not be read"))
    now = reread(store, ended, JobStatus("failed", "rank 1 ended with exit code 3", exit_code=3))
    assert (now.state, now.exit_code, exit_code_of(now), now.unread) == ("failed", 3, 3, "")
    assert store.by_name("job").state == "failed"
    assert store.by_name("job").inputs == {"data": "/store/data/v1"}, "which version it read is known late too"


def test_a_failure_stays_one(store):
    ended = job(store, "running", "failed", exit_code=None, facts=JobFacts(unread="its log could not be read"))
    assert reread(store, ended, JobStatus("succeeded", exit_code=0)).state == "failed"


def test_the_verdict_of_a_deadline_stays(store):
    told_why = {"cause": "pull_timeout: too long", "diagnosis": {"kind": "image", "what": "it was pulled for ever"}}
    ended = job(store, "starting", "failed", exit_code=124, facts=JobFacts(unread="no"), handle={"timed_out": told_why})
    now = reread(store, ended, JobStatus("failed", "exit code 143", exit_code=143))
    assert (now.exit_code, now.diagnosis["kind"], now.unread) == (124, "image", "")


@pytest.mark.parametrize(("code", "ends"), [(256, 1), (512, 1), (-1, 1), (255, 255), (0, 0), (3, 3)])
def test_no_failure_ends_as_a_success_for_want_of_bits(monkeypatch, code, ends):
    monkeypatch.setattr(main, "_run", lambda argv: code)
    assert main.run([]) == ends


def test_an_answer_without_an_id_is_no_crash():
    assert id_in(JobStatus("queued", facts=JobFacts(id="7"))) == "7"
    with pytest.raises(Unreachable, match="an HTML page"):
        id_in(JobStatus("unknown", "an HTML page"))


def test_a_job_that_its_user_submitted_does_not_end_with_another(store, monkeypatch):
    relation = {"made_for": ["reader"]}
    job(store, "running", name="own", handle=relation)
    job(store, "running", name="made", handle={**relation, "made": True})
    reader = job(store, "queued", name="reader", handle={"needs": ["own", "made"]})
    assert [maker.name for maker in only_for(store, [reader])] == ["made"]


def test_a_maker_of_which_nothing_is_known_now_is_not_doubled(store, monkeypatch):
    doubted = job(store, "running", "unknown", name="maker")
    monkeypatch.setattr(input_jobs, "refresh", lambda store, records: [(doubted, None)])
    monkeypatch.setattr(input_jobs, "_writes", lambda *_: True)
    plan = SimpleNamespace(executor="cloud")
    artifact = SimpleNamespace(path="/run/data/latest", recipe=doubted.recipe, artifact="data")
    with pytest.raises(input_jobs.UserError, match="cannot be known now whether maker still makes 'data'"):
        input_jobs.made_by(store, plan, artifact)  # type: ignore[arg-type]
