"""What is read out of a pod's last lines, whatever else a log holds, and which node's end counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.records.metrics import last_values
from nemo_runspec.script.markers import NodeMarker, cause, deciding_marker
from nemo_runspec.script.pod_marker import metrics_history, outputs_of, read_ends

LINE = (
    b"nemotron-end: node=1 attempt=2 exit_code=137 signal=9 rank=3 oom=1 phase=command received= lines=1234 "
    b"node_name=gpu-7 ended=1700000000.25 reason=\n"
)


def test_every_word_of_an_end_is_read():
    end = read_ends(b"before\n" + LINE)[1]
    assert end == NodeMarker(
        1, 137, "command", "gpu-7", signal=9, rank=3, oom=True, attempt=2, lines=1234, ended=1700000000.25
    )
    assert cause(end) == "rank 3 was killed by the kernel: out of memory"


def test_words_of_later_versions_are_left_alone_and_reasons_go_to_the_end_of_the_line():
    (end,) = read_ends(LINE.replace(b"lines=1234", b"new=x lines=").replace(b"reason=", b"reason=a=b  c")).values()
    assert (end.lines, end.reason) == (0, "a=b  c")


def test_last_end_of_a_node_counts():
    text = LINE + b"more\n" + LINE.replace(b"137", b"0") + LINE.replace(b"node=1", b"node=0")
    assert {node: end.exit_code for node, end in read_ends(text).items()} == {0: 137, 1: 0}


@pytest.mark.parametrize(
    "line",
    [
        LINE[:60],
        b"[rank0] " + LINE,
        b"  " + LINE,
        LINE.replace(b"137", b"x"),
        LINE.replace(b"phase=command ", b""),
        LINE.replace(b": ", b":\xff"),
    ],
    ids=["cut off", "of a rank", "indented", "no number", "no phase", "another word"],
)
def test_line_that_is_no_end_says_nothing(line):
    assert read_ends(line) == {}


FAILED = NodeMarker(1, 3, rank=5)
FOLLOWED = NodeMarker(0, 3, reason="node 1 failed (rank 5)")
STOPPED = NodeMarker(2, 143, received="TERM")


@pytest.mark.parametrize(
    ("ends", "first"),
    [
        ([FOLLOWED, FAILED], FAILED),
        ([STOPPED, FAILED], FAILED),
        ([STOPPED, FOLLOWED], FOLLOWED),
        ([NodeMarker(0, 0), STOPPED], STOPPED),
        ([NodeMarker(0, 0), NodeMarker(1, 0)], NodeMarker(0, 0)),
        ([NodeMarker(0, 9), NodeMarker(0, 0, attempt=1)], NodeMarker(0, 0, attempt=1)),
        (
            [
                NodeMarker(0, 1, reason="node 0 failed in its setup"),
                NodeMarker(1, 1, reason="node 0 failed in its setup"),
            ],
            None,
        ),
        ([NodeMarker(0, 9, ended=13.0), NodeMarker(1, 7, ended=10.0)], NodeMarker(1, 7, ended=10.0)),
        ([], None),
    ],
)
def test_end_that_says_how_the_job_ended(ends, first):
    assert deciding_marker(ends) == (first or (ends[0] if ends else None))


ENDS = st.builds(
    NodeMarker,
    node=st.integers(0, 3),
    exit_code=st.sampled_from([0, 1, 7, 130, 143]),
    attempt=st.integers(0, 2),
    received=st.sampled_from(["", "TERM"]),
    reason=st.sampled_from(["", "node 0 failed", "node 2 failed (rank 1)"]),
    ended=st.floats(0, 100),
)


@given(st.lists(ENDS, min_size=1, max_size=6), st.randoms())
def test_the_order_in_which_ends_are_read_changes_nothing(ends, random):
    shuffled = list(ends)
    random.shuffle(shuffled)
    one, other = deciding_marker(ends), deciding_marker(shuffled)
    assert one is not None
    assert other is not None
    assert (one.exit_code, one.node, one.ended) == (other.exit_code, other.node, other.ended)


def test_outputs_and_metrics():
    text = b"""nemotron-output: model /run/my model
nemotron-output: broken
nemotron-metrics: {"step": 1, "val_loss": 2.5, "name": "x"}
[rank0] nemotron-metrics: {"loss": 9}
nemotron-metrics: {"step": 2, "loss": 1.5}
nemotron-metrics: {"loss": 0.
"""
    assert outputs_of(text) == {"model": "/run/my model"}
    assert last_values(metrics_history(text).splitlines()) == {"step": 2.0, "val_loss": 2.5, "loss": 1.5}
