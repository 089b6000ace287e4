"""The lines that pods tell nemotron are not the user's."""

from __future__ import annotations

from nemo_runspec.backends.cloud.pod.log_lines import without_markers
from nemo_runspec.backends.provider import LogChunk

END = b"nemotron-end: node=0 attempt=0 exit_code=3 phase=command reason=\n"


def test_lines_of_the_job_stay():
    pieces = [LogChunk("a", 5, b"[rank0] nemotron-end: node=0\n\xff\n part", next=9), LogChunk("b", 0, b"not whole")]
    assert without_markers(pieces) == pieces


def test_told_lines_go_and_stir():
    content = b"one\nnemotron-output: model /x\ntwo\n" + END
    assert without_markers([LogChunk("a", 5, content, next=77)]) == [
        LogChunk("a", 5, b"one\ntwo\n", next=77),
        LogChunk("a|ended", 5, b"", silent=True, next=77),
    ]


def test_nothing_else_left():
    assert without_markers([LogChunk("a", 5, END, more=True, next=77)]) == [
        LogChunk("a", 5, b"", more=True, silent=True, next=77)
    ]


def test_bytes_of_a_file_are_counted():
    piece = LogChunk("a", 10, b"x\n" + END + b"not whole")
    assert [(p.content, p.cursor) for p in without_markers([piece])] == [(b"x\n", 12 + len(END)), (b"", 12 + len(END))]
