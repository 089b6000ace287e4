"""The engine's frames, in pieces of any size."""

from __future__ import annotations

import struct
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.backends.docker.stream import Frames


@given(outputs=st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40))), cuts=st.lists(st.integers(0, 600)))
def test_output_is_whole_however_it_is_cut(outputs, cuts):
    sent = b"".join(struct.pack(">BxxxL", stream, len(text)) + text for stream, text in outputs)
    edges = [0, *sorted(cut for cut in cuts if cut < len(sent)), len(sent)]
    frames = Frames()
    pieces = [frames.feed(sent[a:b]) for a, b in pairwise(edges)]
    assert b"".join(pieces) == b"".join(text for _, text in outputs)


def test_a_terminal_has_no_frames():
    assert Frames(raw=True).feed(b"\x01abc") == b"\x01abc"
