"""Odd answers of a cluster: whatever comes back is an answer, is called unknown, or is a `UserError`.

`data/slurm_answers.json` holds what the scripts answered in the lab (Slurm 22.05); here it is damaged in every way.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_runspec.backends.slurm.array import stop_tasks as stop_array
from nemo_runspec.backends.slurm.cluster import answer_of
from nemo_runspec.backends.slurm.cluster.job import ClusterJob, SlurmJobRef
from nemo_runspec.backends.slurm.cluster.stage import probe
from nemo_runspec.backends.slurm.cluster.status import query_jobs
from nemo_runspec.backends.slurm.cluster.stop import request_stop
from nemo_runspec.backends.slurm.cluster.submit import SlurmSubmission, find, submit
from nemo_runspec.backends.slurm.diagnose import diagnose
from nemo_runspec.backends.slurm.observe import collect_results, exclude_and_release, read_chunks
from nemo_runspec.backends.slurm.observe import job_statuses as see
from nemo_runspec.backends.slurm.preflight import login, login_request, plan_of, shape
from nemo_runspec.backends.slurm.preflight.checks import ask as examine
from nemo_runspec.backends.slurm.preflight.checks import fast_checks
from nemo_runspec.backends.slurm.preflight.checks import read as read_job
from nemo_runspec.check import CheckRequest
from nemo_runspec.errors import UserError
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.records.facts import to_table
from nemo_runspec.records.record import STATES
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.markers import parse_marker
from nemo_runspec.transport.base import Data, Done

ANSWERS = json.loads((Path(__file__).parents[1] / "data" / "slurm_answers.json").read_text(encoding="utf-8"))
EXAMPLES = settings(max_examples=600 if os.environ.get("REQUIRE_LAB") == "full" else 200, deadline=None)

ODD = (
    "", "\x1f", "\x1e", "\x1d", "\n", "\x00", "-1", "0", "9" * 5000, "9" * 400, "99999999999999999999", "1099511627776",
    "123456789012345", "65535", "1e999", "nan", "inf", "²", "١٢", "N/A", "Unknown", "(null)", "None", "INVALID",
    "1-2-3", "0:53", "4021", "1:2:3:4", "ERROR: ld.so", "<html>", "null", "[]", "{}", "\u2028", "\u202e", "\x1b[31m",
    "é", "=", "|", ";", "12;other", "3_1", "3_[0-9]", "\x1equeue;\x1f0\n", "\x1efound\x1f0\n", "\x1emade\x1f0\n",
    "\x1equeue;\x1f-9\n", "\x1eplaces;\x1f0\n4\x1f\n",
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, kind: str) -> str:
    """An answer of this kind with some of it cut out, doubled, exchanged, or replaced by what is odd."""
    text = draw(st.sampled_from(ANSWERS[kind]))
    for _ in range(draw(st.integers(1, 4))):
        # Most of the damage comes where a field is, as with a program of another version.
        ends = [match.start() for match in re.finditer(r"[\x1f\x1e\x1d\n]", text)] or [0]
        start = draw(st.sampled_from(ends) | st.integers(0, len(text)))
        end = min(len(text), draw(st.sampled_from([start, *(at for at in ends if at > start)][:4] or [start])))
        how = draw(st.sampled_from(("odd", "insert", "cut", "double", "rest", "any")))
        odd = draw(st.sampled_from(ODD) if how != "any" else st.text(max_size=8))
        own = text[start : start + 1] if text[start : start + 1] in "\x1f\x1e\x1d\n" else ""
        text = {
            "odd": text[:start] + own + odd + text[end:],
            "any": text[:start] + own + odd + text[end:],
            "insert": text[:start] + odd + text[start:],
            "cut": text[:start] + text[end:],
            "double": text[:end] + text[start:end] + text[end:],
            "rest": text[:start],
        }[how]
    return text


@dataclass
class Answering:
    """A login node that answers so, whatever it is asked."""

    text: str
    code: int = 0
    name: str = "login"
    key: str = "login"
    calls: int = 0
    scripts: list[str] = field(default_factory=list)

    def run(self, script: str, *, data: Data = b"", timeout: float = 60.0) -> Done:
        """As `Host.run`."""
        self.calls += 1
        return Done(self.code, self.text.encode("utf-8", "surrogateescape"), b"")


JOBS = [
    SlurmJobRef("2", "/data/me/a", 2),
    SlurmJobRef("3", "/data/me/c"),
    SlurmJobRef("4", "/data/me/d"),
    SlurmJobRef("3_1", "/data/me/c"),
]
HANDLES: list[dict[str, Any]] = [
    {"id": job.id, "name": "test", "job_dir": job.job_dir, "nodes": job.nodes, "outputs": {"o": "/x"}} for job in JOBS
]


def allowed(errand: Callable[[], Any]) -> Any:
    """What an errand gives; None where it refuses the answer."""
    try:
        return errand()
    except UserError as error:
        assert len(str(error)) < 8_000
        return None


def is_sound(job: ClusterJob) -> bool:
    """Nothing in it is more than a record can hold."""
    numbers = (job.elapsed, job.started, job.ended, job.estimated)
    assert all(number is None or math.isfinite(number) for number in numbers), job
    assert job.exit_code is None or 0 <= job.exit_code <= 255, job
    assert json.loads(json.dumps(job.reason)) == job.reason
    return job.state in STATES and all(is_sound(task) for task in job.tasks)


@pytest.mark.slow
@EXAMPLES
@given(damaged("look"))
def test_states(text: str):
    told = allowed(lambda: query_jobs(Answering(text), JOBS, positions=True)) or {}
    assert all(is_sound(job) for job in told.values())
    for job in told.values():
        allowed(lambda job=job: diagnose(job, b"", b""))
    seen = allowed(lambda: see(Answering(text), HANDLES, positions=True)) or []
    for each in seen:
        json.dumps(to_table(each.facts), allow_nan=False)


@pytest.mark.slow
@EXAMPLES
@given(damaged("submit"))
def test_submissions(text: str):
    """An id, or none: never a word that is not one."""
    job = SlurmSubmission("test", "/data/me/a", "/data/me/a/x.sh", ("sbatch",))
    for found in (
        allowed(lambda: submit(Answering(text), job, pauses=())),
        allowed(lambda: find(Answering(text), job)),
    ):
        assert found is None or re.fullmatch(r"[0-9]+(;\S+)?", found.id, re.ASCII)


@pytest.mark.slow
@EXAMPLES
@given(damaged("stop") | damaged("stop_array"))
def test_stops(text: str):
    allowed(lambda: request_stop(Answering(text), JOBS[2:3], "me"))
    task = {"id": "3_0", "array": "/data/me/c", "task": 0}
    allowed(lambda: stop_array(Answering(text), [task], "me", hard=False))


@pytest.mark.slow
@EXAMPLES
@given(damaged("rest"), damaged("tail"))
def test_what_is_left(text: str, log: str):
    seen = [JobStatus("failed", "", detail=ClusterJob("2", "failed", exit_code=3))]
    allowed(lambda: collect_results(Answering(text), HANDLES[:1], seen))
    for piece in allowed(lambda: read_chunks(Answering(log), ["/data/me/*"])) or []:
        assert piece.start >= 0


@pytest.mark.slow
@EXAMPLES
@given(damaged("ask"), damaged("release"))
def test_other_errands(asked: str, released: str):
    allowed(lambda: probe(Answering(asked), "/data/me/a"))
    allowed(lambda: exclude_and_release(Answering(released), JOBS[0]))


PROFILE = {
    **fields_of("slurm").defaults(),
    "account": "acme", "partition": "batch", "qos": "normal", "mounts": ["/usr:/usr"], "nodes": 2, "gpus_per_node": 1,
    "container_image": "/cluster/none.sqsh", "remote_job_dir": "/data/me/run", "time": "00:05:00",
}  # fmt: skip


@pytest.mark.slow
@EXAMPLES
@given(damaged("examine"), damaged("job"), st.booleans())
def test_the_doctor(text: str, job: str, contained: bool):
    profile = {**PROFILE, **({} if contained else {"container_image": None})}
    question, asked = CheckRequest("cluster", profile, job=True), login_request(profile)
    answer = allowed(lambda: examine(Answering(text), asked))
    for checks in (
        (login.checks, shape.shape_checks, shape.billing, login.image_checks, login.place_checks) if answer else ()
    ):
        assert all(check.name for check in checks(question, asked, answer))
    assert list(read_job(question, asked, answer_of(job), answer or answer_of("")))


@pytest.mark.slow
@EXAMPLES
@given(damaged("fast"))
def test_what_is_looked_at_before_a_submission(text: str):
    for check in allowed(lambda: fast_checks(Answering(text), plan_of(PROFILE, "run"))) or []:
        assert check.seen


MARKER = (
    "node=0\nhost=n1\nphase=command\nexit_code=3\nsignal=\nrank=0\noom=0\nreceived=\nattempt=0\n"
    "reason=\nstarted=1\nended=2\n"
)


@EXAMPLES
@given(st.lists(st.tuples(st.sampled_from(MARKER.split()), st.sampled_from(ODD) | st.text(max_size=6)), max_size=3))
def test_markers(changes: list[tuple[str, str]]):
    text = MARKER
    for line, odd in changes:
        text = text.replace(line, f"{line.partition('=')[0]}={odd}")
    marker = parse_marker(text)
    if marker is not None:
        assert math.isfinite(marker.started)
        assert math.isfinite(marker.ended)
        assert 0 <= marker.exit_code <= 255
        assert 0 <= marker.node < 1_000_000
