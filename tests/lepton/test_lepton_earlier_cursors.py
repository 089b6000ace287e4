"""A log that an earlier release has fetched half, with integers as cursors, is continued: every line once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import earlier_cursors as earlier
import pytest
from labs.lepton.job import Attempt, Job, Replica
from labs.lepton.lab import LeptonLab
from labs.lepton.life import Life
from labs.lepton.scenario import Scenario
from lepton_jobs import body_of, handle_of

from nemo_runspec.backends.lepton.client import LeptonProvider

NODES = {
    "two": (
        {"two-abcd-0-xxxxx": earlier.lines_of(0, 4), "two-abcd-1-yyyyy": earlier.lines_of(1, 5, ends=False)},
        {"two-abcd-0-xxxxx": earlier.lines_of(0, 4), "two-abcd-1-yyyyy": earlier.lines_of(1, 9)},
    ),
    "again": (
        {"again-abcd-0-xxxxx": [*earlier.lines_of(0, 4), *earlier.lines_of(0, 5, life=1, ends=False)]},
        {"again-abcd-0-xxxxx": [*earlier.lines_of(0, 4), *earlier.lines_of(0, 9, life=1)]},
    ),
    "ended": (
        {"ended-abcd-0-xxxxx": earlier.lines_of(0, 4)},
        {"ended-abcd-0-xxxxx": [*earlier.lines_of(0, 4), *earlier.lines_of(0, 9, life=1)]},
    ),
    "joined": (
        {"joined-abcd-0-xxxxx": earlier.lines_of(0, 4), "joined-abcd-1-yyyyy": []},
        {"joined-abcd-0-xxxxx": earlier.lines_of(0, 4), "joined-abcd-1-yyyyy": earlier.lines_of(1, 9, life=1)},
    ),
}
"""Logs of pods as the earlier release has found them, and as they are now.

Of `two` one has ended and the other is in the middle of lines of one nanosecond; `again` and `ended` are started again
by Lepton; the pods of `joined` were not listed, so that their lines came as one log.
"""


def planted(lab: LeptonLab, name: str, logs: dict[str, earlier.Lines]) -> dict[str, Any]:
    job = Job(f"{name}-abcd", name, body_of(name, nodes=len(logs)), state="Running")
    pods = [Replica(id, n, pod=earlier.process(lines, over=False)) for n, (id, lines) in enumerate(logs.items())]
    job.attempts.append(Attempt(job.id, 0, Scenario(), replicas=pods))
    lab.lives.append(Life(lab, job))
    return handle_of(lab, name, id=job.id, nodes=len(logs), since=earlier.T0 / 1e9)


@pytest.mark.parametrize("name", NODES)
def test_a_log_goes_on(lepton_lab: LeptonLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setenv("LEPTON_WORKSPACE_TOKEN", lepton_lab.token)
    earlier.put_back(f"lepton-{name}", tmp_path)
    logs = NODES[name][1]
    job = planted(lepton_lab, name, logs)
    earlier.check(earlier.fetched(LeptonProvider(), job, tmp_path), logs)
