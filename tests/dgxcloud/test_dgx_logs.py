"""Logs of pods, however Kubernetes cuts its answers: every line once, in order, and what was lost is said."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator
from typing import Any

import pytest
from labs.pods import needs_mounts
from labs.runai.server import RunaiLab
from runai_workloads import api_of, handle, payload
from waiting import LONG

from nemo_runspec.backends.cloud import renewal
from nemo_runspec.backends.cloud.log_cursor import LogCursor
from nemo_runspec.backends.dgxcloud import api as api_module
from nemo_runspec.backends.dgxcloud import logs
from nemo_runspec.backends.dgxcloud.logs import kube, s3_copy
from nemo_runspec.backends.dgxcloud.submit import submit
from nemo_runspec.backends.provider import LogChunk

pytestmark = needs_mounts

COUNT = 'for ((n = 0; n < 400; n++)); do echo "line $n äöü"; done'
END = 'echo "nemotron-end: node=0 attempt=0 exit_code=0 signal= rank= oom=0 phase=command lines=400 reason="'


def ran(lab: RunaiLab, command: str, **scenario: Any) -> dict[str, Any]:
    """The handle of a workload of one pod that has run a command to its end."""
    if scenario:
        lab.scenario(None, **scenario)
    body = payload(lab, "job-1")
    body["spec"] |= {"args": "-c 'eval \"$PROGRAM\"'", "environmentVariables": [{"name": "PROGRAM", "value": command}]}
    job = submit(api_of(lab), handle(lab), body)
    assert lab.workload("job-1").over.wait(LONG)
    return job


def pieces(lab: RunaiLab, job: dict[str, Any], limit: int) -> Iterator[LogChunk]:
    """All that there is, asked for again and again, as it is kept between two processes."""
    offsets: dict[str, int] = {}
    while found := logs.new_chunks(api_of(lab), job, json.loads(json.dumps(offsets)), limit):
        offsets |= {piece.path: piece.cursor for piece in found}
        yield from found


@pytest.mark.parametrize("limit", [64, 1000, 16 << 20])
def test_every_line_comes_once(runai_lab: RunaiLab, monkeypatch: pytest.MonkeyPatch, limit: int):
    """All of them may be of one second, which is as fine as Kubernetes can be asked."""
    monkeypatch.setattr(kube, "_LEAST", 64)
    job = ran(runai_lab, f"{COUNT}; {END}; printf unfinished")
    text = b"".join(piece.content for piece in pieces(runai_lab, job, limit)).decode()
    lines = text.splitlines()
    assert lines[:400] == [f"line {n} äöü" for n in range(400)]
    assert lines[400].startswith("nemotron-end:")
    assert lines[401:] == ["unfinished"]


def test_what_the_cluster_has_lost_is_said(runai_lab: RunaiLab):
    job = ran(runai_lab, f"{COUNT}; {END}", kind="truncated_log", lines=100)
    text = b"".join(piece.content for piece in pieces(runai_lab, job, 16 << 20)).decode()
    assert text.startswith("line 301")
    assert "the cluster has lost 301 lines of node 0's log" in text


def test_a_log_that_is_read_to_its_end_needs_no_word_when_its_pods_are_gone(runai_lab: RunaiLab):
    job = ran(runai_lab, f"{COUNT}; {END}")
    api, offsets = api_of(runai_lab), {}
    first = logs.new_chunks(api, job, offsets, 16 << 20)
    api.delete("trainings", str(job["id"]))
    assert logs.new_chunks(api, job, {piece.path: piece.cursor for piece in first}, 16 << 20) == []


def test_a_log_whose_pods_are_gone_says_so_once(runai_lab: RunaiLab):
    job = ran(runai_lab, COUNT, kind="vanished")
    (piece,) = pieces(runai_lab, job, 16 << 20)
    assert b"cannot be read from here any more: its pods are gone" in piece.content
    assert b"/data/nemo_run/jobs/job-1/logs" in piece.content


def test_a_copy_goes_on_where_the_pods_log_broke_off():
    """Of one node two lines were read from its pod; a further attempt's pod and another node's count for themselves."""
    two = LogCursor(time=5, taken=1, total=2).json
    offsets = {
        "job-1-master-0": two,
        "job-1-master-0|ended": two,
        "job-1-r1-master-0": LogCursor(6, 1, 1).json,
        "job-1-worker-0": 0,
    }
    files = {"logs/node-0.log": b"a\nb\nc\nd\n", "logs/node-1.log": b"x\n"}
    found = s3_copy._pieces({"name": "job-1"}, files, offsets, 100)
    assert [(piece.path, piece.content) for piece in found] == [
        ("logs/node-0.log", b"d\n"),
        ("logs/node-1.log", b"x\n"),
    ]
    after = {**offsets, **{piece.path: piece.cursor for piece in found}}
    assert s3_copy._pieces({"name": "job-1"}, files, after, 100) == []


@pytest.mark.parametrize("kind", ["401", "403", "reset"])
def test_a_cluster_that_shows_no_logs_is_named_and_asked_no_more(
    runai_lab: RunaiLab, monkeypatch: pytest.MonkeyPatch, kind: str
):
    """How a job ends is seen all the same. A refusal is believed once two renewed tokens are refused, and for good."""
    monkeypatch.setattr(renewal, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(api_module, "_KUBE_PATIENCE", 0.1)
    runai_lab.kube.fault("GET *", kind, times=None)
    job = ran(runai_lab, COUNT)
    found = list(pieces(runai_lab, job, 16 << 20))
    assert b"cannot be read from here: the cluster's API server" in b"".join(piece.content for piece in found)
    assert len(runai_lab.kube.calls) <= 3
    assert len(runai_lab.calls_of("POST /token")) <= 3


@pytest.mark.parametrize(("code", "sent"), [(0, True), (1, True), (2, False)])
def test_a_log_that_another_node_still_writes_to_is_packed_as_it_is(tmp_path, code, sent):
    """GNU tar ends with 1 where a file has changed while it was read, and with 2 where one could not be."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "node-0.log").write_text("the last words\n")
    tools, there = tmp_path / "bin", tmp_path / "there.tar.gz"
    tools.mkdir()
    (tools / "tar").write_text(f'#!/bin/sh\n/usr/bin/env PATH=/usr/bin:/bin tar "$@"\nexit {code}\n')
    (tools / "curl").write_text(f'#!/bin/sh\ncat > /dev/null\ncp "$5" {there}\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    program = s3_copy._PROGRAM.replace("/tmp/nemotron-logs.tar.gz", str(tmp_path / "packed.tar.gz"))
    given = {"PATH": f"{tools}:/usr/bin:/bin", "NEMOTRON_JOB_DIR": str(tmp_path), "NEMOTRON_PUT": "https://nowhere"}
    done = subprocess.run(["bash", "-c", program], env=given, capture_output=True, timeout=LONG)
    assert (done.returncode == 0, there.exists()) == (sent, sent), done.stderr
    if sent:
        with tarfile.open(there) as archive:
            assert archive.extractfile("logs/node-0.log").read() == b"the last words\n"
