"""One table of rules for all backends: what each kind means, and the one order in which rules are tried."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nemo_runspec.backends.slurm.diagnose import CAUSES, IMAGE, LAUNCH
from nemo_runspec.backends.slurm.diagnose import PLATFORM as SLURM
from nemo_runspec.diagnosis.causes import CLASSES, MESSAGES, POD_KINDS, REASONS, REMEDIES, SYSTEM, remedy_for
from nemo_runspec.diagnosis.engine import diagnose
from nemo_runspec.diagnosis.kinds import KINDS, Fault
from nemo_runspec.diagnosis.model import Case, Cause, Platform
from nemo_runspec.diagnosis.patterns import PATTERNS
from nemo_runspec.diagnosis.phases import PHASES
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.records import lifecycle
from nemo_runspec.script.markers import REASONS as REASON_CODES
from nemo_runspec.script.markers import NodeMarker

POD = Platform("the cloud", {kind: f"mend {kind}" for kind in KINDS if kind} | {"image login": "log in"}, POD_KINDS)
PLATFORMS = {"slurm": SLURM, "cloud": POD}


def causes() -> Iterator[Cause]:
    yield from (*MESSAGES, *CLASSES, *SYSTEM, *REASONS.values())
    yield from (*CAUSES.values(), *IMAGE, *LAUNCH)


def test_each_kind_says_whose_fault_it_is_and_whether_to_try_again():
    kinds = {cause.kind for cause in causes()} | {pattern.kind for pattern in PATTERNS} | set(POD_KINDS.values())
    assert kinds - set(KINDS) == set()
    assert {name for name, kind in KINDS.items() if kind.retry} == {
        "eviction", "preemption", "node", "node failure", "health check", "bad GPU", "Ray node",
    }  # fmt: skip
    assert not [name for name, kind in KINDS.items() if kind.retry and kind.fault in (Fault.CODE, Fault.CONFIGURATION)]


def test_each_cause_has_a_remedy():
    assert not [cause for cause in (*CAUSES.values(), *IMAGE, *LAUNCH) if len(remedy_for(SLURM, cause)) < 10]
    assert not [cause for cause in (*MESSAGES, *CLASSES, *SYSTEM) if len(remedy_for(POD, cause)) < 6]
    assert all((cause.remedy or cause.kind) in {**REMEDIES, **SLURM.remedies} for cause in REASONS.values())


def test_each_deadline_has_its_row():
    assert tuple(PHASES) == lifecycle.PHASES
    assert [phase for phase in PHASES.values() if phase.kind not in KINDS or phase.remedy not in REMEDIES] == []


def test_a_kind_that_nobody_knows_is_not_tried_again():
    made_up = Diagnosis("of a plug-in", "it failed")
    assert (made_up.fault, made_up.retry) == (Fault.UNKNOWN, False)


def of(platform: str, *markers: NodeMarker, tail: str = "") -> Diagnosis:
    found = diagnose(Case("failed", PLATFORMS[platform], markers=markers, tail=tail.encode()))
    assert found is not None
    return found


CODED = {
    "stall": ("it was at 60 without output", "stall"),
    "health": ("the eighth GPU is gone", "health check"),
    "restarts": ("ten were enough", "time limit"),
    "setup_lines": ("its lines ended it", "setup"),
    "outputs": ("two of three were refused", "storage"),
    "image": ("there is no tar", "image"),
}
"""Reason code → words that no table knows, the kind."""


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("code", CODED)
def test_a_reason_code_decides_and_not_its_words(platform: str, code: str):
    reason, kind = CODED[code]
    found = of(platform, NodeMarker(0, 1, phase="start", host="n3", reason=reason, reason_code=code))
    assert found.kind == kind
    assert reason in f"{found.what} {found.evidence}"


OLDER = {
    "no progress for 4 s (stall_timeout)": "stall",
    "no progress for 4 s (stall_timeout), after 3 other tries": "stall",
    "health check: bad node n3: 7 GPUs, and 8 are asked for": "health",
    "SIGTERM before the time limit; max_restarts = 10 is reached": "restarts",
    "setup_lines ended the batch script before its command": "setup_lines",
    "a command of pre_launch_commands failed": "pre_launch",
    "outputs: 2 of 3 files of /out: HTTP 500": "outputs",
    "inputs: s3://b/x: not there": "inputs",
    "inputs: the image has no python3, which inputs and outputs on S3 need": "image",
    "the image has no tar, which the job's files need": "image",
    "the code package cannot be downloaded: curl: (22) error: 403": "files",
    "the job package did not arrive whole": "files",
    "mkdir failed: No space left on device": "files",
    "node 0 has put no job to /jobs/x in 600 s: do all nodes see it?": "files",
    "node 1 failed: outputs: HTTP 403": "",
    "the job was told to stop (SIGTERM)": "",
    "": "",
}
"""What scripts of earlier releases say in words alone, and the code that it has today."""


@pytest.mark.parametrize("reason", OLDER)
def test_jobs_of_earlier_releases_say_it_in_words(reason: str):
    code = OLDER[reason]
    assert NodeMarker(0, 1, reason=reason).reason_code == code
    assert code in (*REASON_CODES, "")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_first_failure_is_one_order_everywhere(platform: str):
    """A node that names another follows it, though its clock says that it was earlier; by code, or by older words."""
    tail = "[rank0] step 1 of the first\n"
    for heard in ({"blames": 1}, {"reason": "node 1 failed (rank 8)"}):
        followed = NodeMarker(0, 9, rank=0, ended=10.0, **heard)
        found = of(platform, followed, NodeMarker(1, 7, rank=8, host="n2", ended=11.0), tail=tail)
        assert "exit code 7" in found.what


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_ended_a_command_is_the_same_everywhere(platform: str):
    traceback = 'Traceback (most recent call last):\n  File "/w/main.py", line 3, in <module>\nValueError: nan\n'
    assert (
        of(platform, NodeMarker(0, 1, rank=0), tail=traceback).what == "the command raised ValueError at /w/main.py:3"
    )
    assert of(platform, NodeMarker(0, 137, signal=9, oom=True, host="n1")).kind == "out of memory"
    assert of(platform, NodeMarker(0, 124, reason="no progress", reason_code="stall")).kind == "stall"
    killed = of(platform, NodeMarker(0, 137, signal=9, rank=0, host="n1"))
    assert killed.what == "rank 0 was killed by signal 9 (SIGKILL) on n1"
