"""The last lines of a pod (`jobside/pod/ending.py`): how its node ended, what was made, its last metrics.

The lines stand alone and begin with their word. What a rank writes that begins so has `[rankN] ` before it
(`jobside/output.py`), so no job can say them.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator, Mapping

from nemo_runspec.script.markers import IN_WORDS, NodeMarker, finite, whole_number
from nemo_runspec.script.wandb_run import parse_run

_PART = re.compile(rb"z:(\d{1,3})/(\d{1,3}):([A-Za-z0-9+/=]+)")
_MOST = 8 << 20
"""Bytes of metrics that are unpacked."""

END, OUTPUT, METRICS = b"nemotron-end:", b"nemotron-output:", b"nemotron-metrics:"
INPUT, WANDB = b"nemotron-input:", b"nemotron-wandb:"


def read_ends(text: bytes) -> Mapping[int, NodeMarker]:
    """How each node ended, by its last end in a log, in the order of the nodes; a line that is cut off says nothing."""
    ends = {end.node: end for line in _lines(text, END) if (end := _end(line)) is not None}
    return dict(sorted(ends.items()))


def outputs_of(text: bytes) -> dict[str, str]:
    """Output → path, of what the job has made."""
    return _paths(text, OUTPUT)


def inputs_of(text: bytes) -> dict[str, str]:
    """Input → the path of the version that the job has read."""
    return _paths(text, INPUT)


def wandb_run_of(text: bytes) -> dict[str, str]:
    """The job's run on W&B, see `script.wandb_run`."""
    return parse_run(next(_lines(text, WANDB), b""))


def metrics_history(text: bytes) -> bytes:
    """The metrics that node 0 has told at its end, as JSON lines; empty where a part of them is missing.

    Pods of an earlier release, and those without python3, tell their last lines as they are.
    """
    lines = [line.strip() for line in _lines(text, METRICS)]
    parts = {int(found[1]): found for line in lines if (found := _PART.fullmatch(line)) is not None}
    plain = b"".join(line + b"\n" for line in lines if line.startswith(b"{"))
    return plain + (_unpacked(parts) or b"")


def _paths(text: bytes, word: bytes) -> dict[str, str]:
    pairs = (_text(line).partition(" ") for line in _lines(text, word))
    return {name: path for name, space, path in pairs if name and space}


def _end(line: bytes) -> NodeMarker | None:
    words, whole, reason = f" {_text(line)} ".partition(" reason=")
    if not whole:
        return None
    values = dict(word.split("=", 1) for word in words.split(" ") if "=" in word)
    try:
        return NodeMarker(
            node=int(values["node"]),
            exit_code=whole_number(values["exit_code"], 255),
            phase=values["phase"],
            host=values.get("node_name", ""),
            signal=_number(values.get("signal")),
            rank=_number(values.get("rank")),
            oom=values.get("oom") == "1",
            received=values.get("received", ""),
            attempt=int(values.get("attempt") or 0),
            reason=reason.strip(),
            ended=finite(values.get("ended") or "0"),
            lines=int(values.get("lines") or 0),
            reason_code=values.get("reason_code", IN_WORDS),
            blames=_number(values.get("blames")),
        )
    except (KeyError, ValueError):
        return None


def _unpacked(parts: Mapping[int, re.Match[bytes]]) -> bytes | None:
    """What `jobside/downsample.py` has packed; None where that is not whole."""
    count = max((int(part[2]) for part in parts.values()), default=0)
    if not count or sorted(parts) != list(range(1, count + 1)):
        return None
    unpack = zlib.decompressobj()
    try:
        text = unpack.decompress(base64.b64decode(b"".join(parts[n][3] for n in sorted(parts)), validate=True), _MOST)
    except (ValueError, zlib.error):
        return None
    return text if unpack.eof else None


def _lines(text: bytes, word: bytes) -> Iterator[bytes]:
    for line in text.split(b"\n"):  # a lone carriage return begins none: it may stand in what a command says
        if line.startswith(word + b" "):
            yield line[len(word) + 1 :]


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip()


def _number(text: str | None) -> int | None:
    return int(text) if text else None
