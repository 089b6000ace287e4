"""A pod's last lines are for nemotron: they are left out of what is shown, and say that the state has changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from nemo_runspec.backends.provider import LogChunk
from nemo_runspec.script.pod_marker import END, INPUT, METRICS, OUTPUT

_TOLD = re.compile(rb"^(?:%s) .*\n" % b"|".join(map(re.escape, (END, INPUT, OUTPUT, METRICS))), re.MULTILINE)
_ENDED = re.compile(rb"^%s " % re.escape(END), re.MULTILINE)


def shown(pieces: Iterable[LogChunk]) -> list[LogChunk]:
    """The same pieces without lines of `cloud.marker`; a silent piece beside one in which a node has ended."""
    return [part for piece in pieces for part in _shown(piece)]


def _shown(piece: LogChunk) -> Iterator[LogChunk]:
    whole = _whole(piece)
    if not _TOLD.search(whole.content):
        yield piece
        return
    left = _TOLD.sub(b"", whole.content)
    if left:
        yield replace(whole, content=left, next=whole.cursor)
    if not left or _ENDED.search(whole.content):
        path = f"{piece.path}|ended" if left else piece.path
        yield LogChunk(path, whole.start, b"", more=piece.more and not left, silent=True, next=whole.cursor)


def _whole(piece: LogChunk) -> LogChunk:
    """Up to its last line's end: a line that is not whole yet cannot be judged."""
    return piece if piece.next is not None else replace(piece, content=piece.content[: piece.content.rfind(b"\n") + 1])
