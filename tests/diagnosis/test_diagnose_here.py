"""Jobs of this machine, really run: `jobs diagnose` judges them by the same rules as any other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from job_records import record
from support import Outcome, Project

from nemo_runspec.diagnosis.local_jobs import diagnose_folder
from nemo_runspec.records.record import JobRecord
from nemo_runspec.records.store import JobStore

NODE = "node=0\nhost=me\nphase={phase}\nexit_code={code}\nsignal=\nrank=0\noom=0\nreceived=\nreason={reason}\n"
OLD = NODE + "started=1\nended=2\n"
NEW = NODE + "reason_code={coded}\nblames=\nstarted=1\nended=2\n"


def failed_job(project: Project, nemotron: Callable[..., Outcome], body: str) -> JobRecord:
    project.recipe("mine/fail", body=body)
    done = nemotron("mine", "fail")
    assert done.code not in (0, 2), done.err
    [job] = JobStore().list()
    assert isinstance(job, JobRecord)
    return job


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (
            "raise ValueError('a shape is wrong')\n",
            "user code",
            ["raised ValueError at", "main.py:", "a shape is wrong"],
        ),
        ("import not_there_9\n", "import error", ["cannot import not_there_9", "install it"]),
        ("raise SystemExit(3)\n", "", ["nothing more is known"]),
        ("raise SystemExit('no data was given')\n", "", ["what it wrote last may say why", "no data was given"]),
        ("raise SystemExit('ValueError: no data')\n", "user code", ["gave up: ValueError: no data"]),
    ],
)
def test_a_local_job(
    project: Project, nemotron_process: Callable[..., Outcome], body: str, kind: str, words: list[str]
) -> None:
    job = failed_job(project, nemotron_process, body)
    said = nemotron_process("jobs", "diagnose", job.name).succeeds().out
    assert nemotron_process("jobs", "diagnose", job.name, "--json").succeeds().json["kind"] == kind
    for word in words:
        assert word in said


@pytest.mark.parametrize(
    ("marker", "kind"),
    [
        (OLD.format(phase="command", code=124, reason="no progress for 4 s (stall_timeout)"), "stall"),
        (NEW.format(phase="command", code=124, reason="it sat there", coded="stall"), "stall"),
        (NEW.format(phase="command", code=124, reason="no progress for 4 s (stall_timeout)", coded=""), None),
        (OLD.format(phase="setup", code=127, reason="node 0 failed in its setup: startup command 1 of 1"), "setup"),
        (OLD.replace("oom=0", "oom=1").format(phase="command", code=137, reason=""), "out of memory"),
    ],
)
def test_its_markers(tmp_path: Path, marker: str, kind: str | None) -> None:
    """As a job script of this release, and of one before, leaves them: where there is a code, its words say nothing."""
    (tmp_path / "status").mkdir()
    (tmp_path / "status" / "node-0").write_text(marker)
    found = diagnose_folder(record("mine-fail-1", ("failed",), exit_code=1), tmp_path, tmp_path / "no.log")
    assert (found.kind if found else None) == kind
