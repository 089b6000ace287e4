"""Inputs from S3 and outputs to it: by `data.pyz`, a program of its own, whose last words say why it failed."""

import os
import threading

from nemo_runspec.jobside.clock import within
from nemo_runspec.jobside.output import write_all

MYPY = False
if MYPY:
    from typing import Sequence, Tuple

    from nemo_runspec.jobside.pod.pod import PodRun

_PATIENCE = 5.0


def move(pod: "PodRun", action: str, passes: str, options: "Sequence[str]" = ()) -> "Tuple[int, str]":
    """Fetches inputs (`get`) or copies outputs away (`put`): its exit code, and why it failed, in words.

    Args:
        passes: what a stop means to it, see `PodRun.run`.
    """
    root = pod.job.root
    program = [pod.python, "-I", "-S", root + "/data.pyz", action, root + "/data.json", "--node", str(pod.index)]
    source, end = os.pipe()
    errors = _Errors(source)
    code = pod.run([*program, *options], passes, {2: end})
    return code, errors.last() if code else ""


class _Errors:
    """What a program says as errors, which goes on to the log."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._last = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def last(self) -> str:
        """Its last line, once all has been read."""
        within(_PATIENCE, lambda: not self._thread.is_alive())
        text = self._last.decode("utf-8", "surrogateescape").rstrip("\n")
        return text[len("nemotron: ") :] if text.startswith("nemotron: ") else text

    def _read(self) -> None:
        with open(self._source, "rb") as lines:
            for line in lines:
                self._last = line
                write_all(2, line)
