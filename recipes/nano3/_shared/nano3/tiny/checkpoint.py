"""Saves and finds checkpoints.

One is a folder `step_00000020/` with `state.pt` and `complete.json`, which names the size and digest of the state. The
folder is renamed into place whole, and one whose state does not fit is passed over.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from nano3.files import publish_folder, sha256_of, staging, write_text_atomic

State = dict[str, Any]


def save(folder: Path, step: int, state: State, keep: int) -> Path:
    """Save the state after `step` steps, then remove all but the newest `keep` checkpoints."""
    final = folder / f"step_{step:08d}"
    with staging(folder, "step") as built:
        whole = built / final.name
        whole.mkdir()
        torch.save(state, whole / "state.pt")
        complete = {"step": step, "bytes": (whole / "state.pt").stat().st_size, "sha256": sha256_of(whole / "state.pt")}
        write_text_atomic(whole / "complete.json", json.dumps(complete) + "\n")
        publish_folder(whole, final)
    for old in sorted(folder.glob("step_*"))[:-keep]:
        shutil.rmtree(old)
    return final


def newest(folder: Path) -> Path | None:
    """The newest whole checkpoint in `folder`, or `folder` itself where it is one."""
    candidates = [folder, *sorted(folder.glob("step_*"), reverse=True)] if folder.is_dir() else []
    return next((candidate for candidate in candidates if is_whole(candidate)), None)


def is_whole(checkpoint: Path) -> bool:
    """Whether the state has the size and digest that were written after it."""
    state = checkpoint / "state.pt"
    try:
        complete = json.loads((checkpoint / "complete.json").read_text(encoding="utf-8"))
        return bool(state.stat().st_size == complete["bytes"] and sha256_of(state) == complete["sha256"])
    except (OSError, ValueError, KeyError):
        return False


def load(checkpoint: Path) -> State:
    """Read a checkpoint's state; only tensors and plain values are accepted."""
    state: State = torch.load(checkpoint / "state.pt", map_location="cpu", weights_only=True)
    return state
