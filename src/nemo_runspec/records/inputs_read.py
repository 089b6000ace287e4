"""Versions that a job has read, as it found out itself (`jobside/artifacts.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from nemo_runspec.regular import read_regular


def inputs_read(status: Path) -> Iterator[tuple[str, str]]:
    """Name → path, of the inputs that were links of the store: where these led.

    Args:
        status: the folder of the job's records, on this machine.
    """
    for file in sorted(status.glob("input-*")):
        found = re.search(r"^path=(.+)$", read_regular(file).decode("utf-8", "replace"), re.MULTILINE)
        if found:
            yield file.name.removeprefix("input-"), found[1]
