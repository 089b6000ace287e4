"""A pod's last lines, which are all that comes back of it besides its log (`script/pod_marker.py` reads them)."""

import os
import socket
import time

from nemo_runspec.jobside.artifacts import input_path
from nemo_runspec.jobside.forward import RUN

MYPY = False
if MYPY:
    from typing import Iterator, Optional

    from nemo_runspec.jobside.pod.pod import PodRun


def end_line(pod: "PodRun", code: int, reason: str, reason_code: str = "", blames: "Optional[int]" = None) -> str:
    """The line of the end. What the job script has written down of its end says more than a status."""
    record = pod.status.read(pod.marker)
    oom = record.get("oom") is True if record else pod.oom.any
    values = (
        ("node", pod.index),
        ("attempt", pod.job.attempt),
        ("exit_code", code),
        ("signal", record.get("signal")),
        ("rank", record.get("rank")),
        ("oom", int(oom)),
        ("phase", pod.phase),
        ("received", pod.told),
        ("lines", pod.log.lines),
        ("node_name", (os.environ.get("NEMOTRON_NODE_NAME") or socket.gethostname()).replace(" ", "_")),
        ("ended", record.get("ended") or time.time()),
        ("reason_code", reason_code),
        ("blames", blames),
        ("reason", reason.replace("\n", " ")),
    )
    return "nemotron-end: " + " ".join("%s=%s" % (key, "" if value is None else value) for key, value in values)


def result_lines(pod: "PodRun") -> "Iterator[str]":
    """What node 0 has to say of the job's results."""
    for name, path in pod.job.outputs.items():
        if os.path.exists(path):
            yield "nemotron-output: %s %s" % (name, path)
    for record in sorted(pod.status.names()):
        word, _, name = record.partition("input-")
        if not word and name:
            yield "nemotron-input: %s %s" % (name, input_path(pod.status, name))
    run = pod.status.text(RUN).strip()
    if run:
        yield "nemotron-wandb: " + run
    for line in _metrics(pod.job.root + "/metrics.jsonl"):
        yield "nemotron-metrics: " + line


def _metrics(file: str) -> "Iterator[str]":
    try:
        with open(file, "rb") as lines:
            from nemo_runspec.jobside.downsample import downsample, packed

            yield from packed(downsample(lines))
    except OSError:
        return
