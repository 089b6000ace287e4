"""A job's run on W&B, as the job itself has written it down (`jobside/forward.py`): `id`, `url`, `state`, `why`.

`state` is `running`, `finished`, `failed` or `crashed` as W&B means them; `offline` for a run that is kept where the
job ran; `none` where there is no run, with `why`. `artifacts`: the versions that are registered there, or of
an offline run their names; `unregistered`: why others are not.
"""

from __future__ import annotations

import json
from pathlib import Path

from nemo_runspec.regular import read_regular

_KNOWN = ("id", "url", "state", "why", "artifacts", "unregistered")
_MOST = 1 << 16


def run_in(folder: Path) -> dict[str, str]:
    """The run of a job whose directory is on this machine; empty where it has told of none yet."""
    try:
        return parse_run(read_regular(folder / "status" / "wandb", most=_MOST))
    except OSError:
        return {}


def parse_run(text: bytes) -> dict[str, str]:
    """The run that a record tells of; empty for what is none."""
    try:
        found = json.loads(text)
        return {key: str(found[key]) for key in _KNOWN if found.get(key)}
    except (ValueError, AttributeError, RecursionError):
        return {}
