"""Logs of nodes: whole, in order, every line once, whatever the server's limits and the times of lines are."""

from __future__ import annotations

import time

import pytest
from labs.pods import needs_mounts
from lepton_jobs import api_of, run
from waiting import until

from nemo_runspec.backends.lepton.logs import last_lines, new_chunks

LINES = 12_000
_MANY = f"""
awk 'BEGIN {{ for (i = 1; i <= {LINES}; i++) print "zeile " i " — 漢字 é 🚀" }}'
echo 'nemotron-end: node=0 attempt=0 exit_code=0 signal= rank= oom=0 phase=command lines={LINES} node_name=n reason='
"""


def read_all(api, handle, limit, offsets=None):
    """Everything that is new, in pieces of about `limit` bytes: by pod, with the offsets to go on from."""
    offsets, found = dict(offsets or {}), {}
    while pieces := new_chunks(api, handle, offsets, limit):
        for piece in pieces:
            found[piece.path] = found.get(piece.path, b"") + piece.content
            offsets[piece.path] = piece.cursor
    return found, offsets


@needs_mounts
@pytest.mark.parametrize("resolution", [1, 1_000_000])
def test_more_lines_than_an_answer_holds(lepton_lab, resolution):
    lepton_lab.log_resolution_ns = resolution
    job, handle = run(lepton_lab, _MANY)
    api = api_of(lepton_lab)
    found, offsets = {}, {}
    while job.state not in ("Completed", "Failed"):  # while it is written, too
        new, offsets = read_all(api, handle, 100_000, offsets)
        found = {path: found.get(path, b"") + text for path, text in new.items()} | (found if not new else {})
        time.sleep(0.05)
    new, offsets = read_all(api, handle, 100_000, offsets)
    text = b"".join((*found.values(), *new.values())).decode()
    expected = [f"zeile {number} — 漢字 é 🚀" for number in range(1, LINES + 1)]
    assert text.splitlines()[:LINES] == expected
    assert len(text.splitlines()) == LINES + 1  # and no word about lost lines
    assert new_chunks(api, handle, offsets, 100_000) == []


class Slow:
    """A job's log and its clock. The job writes a line every 5 ms all along.

    0.2 s pass with each answer, and 20 s after one whose time ends a little later: there, whoever asks stands still.
    """

    EVERY = 5_000_000

    def __init__(self, lines):
        self.now = 1_700_000_000 * 10**9
        self.web, self.dated = self, True
        self.lines = [(self.now - (lines - number) * self.EVERY, str(number)) for number in range(lines)]

    def time(self):
        return self.now / 10**9

    def logs(self, id, begin, end, *, replica="", limit=5000):
        found = [line for line in self.lines if begin <= line[0] < end][-limit:]
        stands = 0 < end - self.now < 60 * 10**9 and len(found) < limit
        for _ in range(4000 if stands else 40):
            self.now += self.EVERY
            self.lines.append((self.now, str(len(self.lines))))
        return [{"values": [[str(at), text] for at, text in found]}]


def test_what_is_written_between_two_answers_comes_with_the_next():
    """A time that is asked for may end after the answer: what is written in the rest of it is not skipped."""
    log = Slow(12_000)
    handle, offsets, text = {"id": "job", "since": log.time() - 5}, {}, b""
    for _ in range(100):
        for piece in new_chunks(log, handle, offsets, 10**6):
            offsets[piece.path], text = piece.cursor, text + piece.content
    told = [int(line) for line in text.split()]
    assert told == list(range(len(told))) and len(told) > 15_000


@needs_mounts
def test_a_log_for_each_node(lepton_lab):
    script = """n=$LEPTON_JOB_WORKER_INDEX; for i in 1 2 3; do echo "$n: $i"; done
        echo "nemotron-end: node=$n attempt=0 exit_code=0 phase=command lines=3 node_name=n reason=" """
    job, handle = run(lepton_lab, script, nodes=3)
    job.wait_for("Completed")
    found, offsets = read_all(api_of(lepton_lab), handle, 1 << 20)
    assert list(found) == [replica.id for replica in job.replicas]
    for number, text in enumerate(found.values()):
        assert text.decode().splitlines()[:3] == [f"{number}: {i}" for i in (1, 2, 3)]
        assert text.count(b"\n") == 4
    asked = len(lepton_lab.calls_of("GET /logs"))
    assert new_chunks(api_of(lepton_lab), handle, offsets, 1 << 20) == []
    assert len(lepton_lab.calls_of("GET /logs")) == asked  # nodes that have ended say no more
    last = last_lines(api_of(lepton_lab), handle, 5).decode().splitlines()
    assert [line[:13] == "nemotron-end:" for line in last].count(True) >= 1
    assert len(last) == 5


@needs_mounts
def test_nodes_that_are_listed_late(lepton_lab):
    """Until then their lines are read as one log, of which nobody knows how many are missing."""
    script = """n=$LEPTON_JOB_WORKER_INDEX; echo "$n: early"
        [ $n = 1 ] || echo "nemotron-end: node=0 attempt=0 exit_code=0 phase=command lines=1 node_name=n reason="
        [ $n = 0 ] || while [ ! -e /mnt/lustre/go ]; do sleep 0.05; done
        [ $n = 0 ] || echo "1: late"
        [ $n = 0 ] || echo "nemotron-end: node=1 attempt=0 exit_code=0 phase=command lines=2 node_name=n reason=" """
    mounts = [{"path": "/", "mount_path": "/mnt/lustre", "from": "node-nfs:lustre"}]
    affinity = {"allowed_dedicated_node_groups": ["ng-h100-4f2a"]}
    unlisted = lepton_lab.fault("GET /jobs/*/replicas", "404", times=None)
    job, handle = run(lepton_lab, script, nodes=2, mounts=mounts, affinity=affinity)
    until(lambda: job.text.count("early") == 2 and "node=0" in job.text, "the words of both")
    api = api_of(lepton_lab)
    early, offsets = read_all(api, handle, 1 << 20)
    assert list(early) == [job.id]
    unlisted.times = 0
    (lepton_lab.volumes["lustre"] / "go").touch()
    job.wait_for("Completed")
    late, offsets = read_all(api, handle, 1 << 20, offsets)
    lines = b"".join((*early.values(), *late.values())).decode().splitlines()
    told = [line for line in lines if not line.startswith("nemotron-end:")]
    assert sorted(told) == ["0: early", "1: early", "1: late"]
    assert list(late) == [job.replicas[1].id]
    assert new_chunks(api, handle, offsets, 1 << 20) == []


@needs_mounts
def test_a_log_of_two_nodes_that_are_not_listed_any_more(lepton_lab):
    script = """n=$LEPTON_JOB_WORKER_INDEX; sleep $n; echo "$n"
        echo "nemotron-end: node=$n attempt=0 exit_code=0 phase=command lines=$((1 + 3 * n)) node_name=n reason=" """
    job, handle = run(lepton_lab, script, nodes=2)
    job.wait_for("Completed")
    lepton_lab.fault("GET /jobs/*/replicas", "404", times=None)
    [text] = read_all(api_of(lepton_lab), handle, 1 << 20)[0].values()
    assert text.decode().count("nemotron-end") == 2
    assert b"has lost" not in text


@needs_mounts
def test_lost_lines_are_said(lepton_lab):
    lepton_lab.scenario(None, "truncated_log")
    script = _MANY.replace(str(LINES), "10")
    job, handle = run(lepton_lab, script)
    job.wait_for("Completed")
    [text] = read_all(api_of(lepton_lab), handle, 1 << 20)[0].values()
    assert text.decode().splitlines()[-1] == "nemotron: Lepton has lost 3 or more lines of node 0's log"
