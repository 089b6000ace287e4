"""The repositories mounted into a job at the commits they had: kept, so that a retry has the same ones."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.plans.model import AutoMount
from nemo_runspec.regular import read_json

_FILE = "mounts.json"


def write_mounts(folder: Path, mounts: Sequence[AutoMount]) -> None:
    """Keeps the commits in a job's folder; nothing is written where nothing is mounted."""
    if mounts:
        paths.write_private(folder / _FILE, json.dumps([dataclasses.asdict(m) for m in mounts], indent=1) + "\n")


def read_mounts(folder: Path) -> tuple[AutoMount, ...]:
    """What was mounted into the job in `folder`; nothing where nothing was, or it cannot be read."""
    try:
        stored = read_json(folder / _FILE)
        return tuple(AutoMount(**mount) for mount in stored)
    except (OSError, ValueError, TypeError):
        return ()


def at_recorded_commits(mounts: Sequence[AutoMount], folder: Path) -> tuple[AutoMount, ...]:
    """Mounts at the commits that the job in `folder` had; unchanged where it had none yet."""
    commits = {(mount.url, mount.ref): mount.commit for mount in read_mounts(folder)}
    return tuple(dataclasses.replace(m, commit=commits.get((m.url, m.ref), m.commit)) for m in mounts)
