"""A pod's last lines are for nemotron: they are left out of what is shown, and say that the state has changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from nemo_runspec.backends.cloud.log_cursor import ENDED
from nemo_runspec.backends.provider import LogChunk
from nemo_runspec.script.pod_marker import END, INPUT, METRICS, OUTPUT, WANDB

_MARKER_LINES = re.compile(
    rb"^(?:%s) .*\n" % b"|".join(map(re.escape, (END, INPUT, OUTPUT, METRICS, WANDB))), re.MULTILINE
)
_END_LINE = re.compile(rb"^%s " % re.escape(END), re.MULTILINE)


def without_markers(chunks: Iterable[LogChunk]) -> list[LogChunk]:
    """The same chunks without lines of `script.pod_marker`; a silent chunk beside one in which a node has ended."""
    return [part for chunk in chunks for part in _without_markers(chunk)]


def _without_markers(chunk: LogChunk) -> Iterator[LogChunk]:
    whole = _whole(chunk)
    if not _MARKER_LINES.search(whole.content):
        yield chunk
        return
    content = _MARKER_LINES.sub(b"", whole.content)
    if content:
        yield replace(whole, content=content, next=whole.cursor)
    if not content or _END_LINE.search(whole.content):
        path = f"{chunk.path}{ENDED}" if content else chunk.path
        yield LogChunk(path, whole.start, b"", more=chunk.more and not content, silent=True, next=whole.cursor)


def _whole(chunk: LogChunk) -> LogChunk:
    """Up to its last line's end: a line that is not whole yet cannot be judged."""
    return chunk if chunk.next is not None else replace(chunk, content=chunk.content[: chunk.content.rfind(b"\n") + 1])
