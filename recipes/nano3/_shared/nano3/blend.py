"""Reads and writes `blend.json`, the weights and prefixes per split that Megatron-Bridge takes as
`per_split_data_args_path`: for each split a flat list `[weight, prefix, weight, prefix, …]`, or null for an empty one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from nano3.files import write_text_atomic

SPLITS = ("train", "valid", "test")
Blend = list[tuple[float, Path]]


def write_blend(path: Path, blends: Mapping[str, Sequence[tuple[float, Path]]]) -> None:
    """Write the three splits; a split without data becomes null, which Megatron reads as "none"."""
    content = {
        split: [text for weight, prefix in blends[split] for text in (repr(float(weight)), str(prefix))] or None
        for split in SPLITS
    }
    write_text_atomic(path, json.dumps(content, indent=2) + "\n")


def read_blend(path: Path) -> dict[str, Blend]:
    """Read the three splits. A prefix that is no longer there is looked for beside `blend.json`, so a dataset may move.

    Raises:
        FileNotFoundError: a prefix is in neither place.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    return {split: _pairs(path.parent, content.get(split) or []) for split in SPLITS}


def _pairs(folder: Path, flat: list[str]) -> Blend:
    return [(float(flat[i]), _locate(folder, Path(flat[i + 1]))) for i in range(0, len(flat), 2)]


def _locate(folder: Path, prefix: Path) -> Path:
    for candidate in (prefix, folder / prefix.name):
        if candidate.is_absolute() and candidate.with_name(f"{candidate.name}.idx").is_file():
            return candidate
    raise FileNotFoundError(f"no data at {prefix}.idx nor at {folder / prefix.name}.idx")
