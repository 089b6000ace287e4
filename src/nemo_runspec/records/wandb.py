"""Facts of a job's run on W&B that are known here."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from nemo_runspec.records.record import JobRecord
from nemo_runspec.regular import open_regular
from nemo_runspec.script.wandb_run import run_in

_LOOKED_AT = 1 << 18
"""Bytes of a log's beginning and end in which the address is looked for."""
_SAID = re.compile(rb"wandb: .*View run .*?(https?://[^\s\x1b]+/runs/[^\s\x1b]+)")


def run_of(record: JobRecord, folder: Path) -> dict[str, str]:
    """`id`, `url`, `state` and `why` of a job's run, as far as they are known now.

    Empty for a job without W&B, and for one that has ended and told of no run.

    Args:
        folder: the job's on this machine. A script that reports by itself tells its address in the log alone.
    """
    run = dict(record.wandb) if record.ended else {**record.wandb, **run_in(folder)}
    if run and not run.get("url") and run.get("state") not in ("offline", "none"):
        run["url"] = _told_in(folder / "logs")
    told = run.get("url") or run.get("state") or run.get("unregistered")
    return run if told or not record.ended else {}


def _told_in(logs: Path) -> str:
    """The address that the W&B client has said last, in the beginning or at the end of a log; '' for none."""
    for log in sorted(logs.glob("*.log")):
        with suppress(OSError), os.fdopen(open_regular(log), "rb") as file:
            text = file.read(_LOOKED_AT)
            size = os.fstat(file.fileno()).st_size
            file.seek(max(len(text), size - _LOOKED_AT))
            found = _SAID.findall(text + file.read())
            if found:
                return str(found[-1].decode("utf-8", "replace"))
    return ""
