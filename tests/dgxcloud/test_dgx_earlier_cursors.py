"""A log that an earlier release has fetched half, with integers as cursors, is continued: every line once."""

from __future__ import annotations

from pathlib import Path

import earlier_cursors as earlier
import pytest
from labs.runai.model import LabPod
from labs.runai.server import RunaiLab
from runai_workloads import handle, workload

from nemo_runspec.backends.dgxcloud.client import DgxCloudProvider
from nemo_runspec.backends.dgxcloud.logs import kube, s3_copy

FIRST = {
    "job-1-master-0": earlier.lines_of(0, 4),
    "job-1-worker-0": earlier.lines_of(1, 5, ends=False),
    "job-1-worker-1": [*earlier.lines_of(2, 4), *earlier.lines_of(2, 5, life=1, ends=False)],
}
"""Of the pods: one has ended, one is in the middle of lines of one nanosecond, one has been started again."""

ALL = {
    "job-1-master-0": earlier.lines_of(0, 4),
    "job-1-worker-0": earlier.lines_of(1, 9),
    "job-1-worker-1": [*earlier.lines_of(2, 4), *earlier.lines_of(2, 9, life=1)],
}


def planted(lab: RunaiLab, logs: dict[str, earlier.Lines]) -> dict[str, object]:
    made = workload(lab, "job-1", "Running", "distributed")
    for name, lines in logs.items():
        over = lines[-1][1].startswith(b"nemotron-end:")
        made.pods.append(LabPod(name, "", 0, "job", "lab/any", process=earlier.process(lines, over=over)))
    return handle(lab, "job-1", id=made.id, project_id=lab.mine.id, nodes=3)


def test_a_log_of_pods_goes_on(runai_lab: RunaiLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RUNAI_CLIENT_SECRET", runai_lab.client_secret)
    earlier.put_back("dgxcloud", tmp_path)
    job = planted(runai_lab, ALL)
    earlier.check(earlier.fetched(DgxCloudProvider(), job, tmp_path), ALL)
    assert earlier.fetched(DgxCloudProvider(), job, tmp_path).count(b"\n") == sum(map(len, ALL.values())) - 4


def test_what_was_read_of_pods_is_not_read_again_from_a_copy(tmp_path: Path):
    earlier.put_back("dgxcloud", tmp_path)
    cursors = earlier.cursors(tmp_path)
    job = {"name": "job-1", "nodes": 3}
    assert [kube.lines_taken(job, cursors, node) for node in (0, 1, 2)] == [5, 5, 10]
    assert kube.begun(job, cursors) and not kube.is_whole(job, cursors) and kube.is_whole({**job, "nodes": 1}, cursors)
    copied = s3_copy._pieces(job, {"logs/node-1.log": b"1\n2\n3\n4\n5\n6\n"}, cursors, 100)
    assert [piece.content for piece in copied] == [b"6\n"]
