"""Prepares prompts with answers that a reward can be computed from, in the rows that NeMo-RL's datasets read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nano3.dataset_folder import fresh, tell_rows
from nano3.prepare_rl_shard import choose
from nano3.repeats import repeats
from nano3.rows import SPLITS, prepare_rows, run
from nano3.settings import SettingsError
from nano3.shards import Shard, folder_of


@dataclass(frozen=True)
class RlSettings:
    """All that the preparation of prompts can be told."""

    output_dir: Path
    paths: list[str]
    max_characters: int = 16_000
    valid: float = 0.01
    seed: int = 1234
    workers: int | None = None
    shard_bytes: int = 16_000_000


def prepare(settings: RlSettings, recipe_folder: Path) -> None:
    """Write the dataset into `settings.output_dir`, or say that it is already there."""

    def build(shards: list[Shard], partial: Path, there: list[int | None]) -> tuple[Path, dict[str, Any]]:
        job = {"max_characters": settings.max_characters, "seed": settings.seed, "valid": settings.valid}
        results = run(settings, shards, choose, job, partial)
        built, counts, twice = fresh(partial / "whole"), dict.fromkeys(SPLITS, 0), Counter[str]()
        for split in SPLITS:
            parts = [folder_of(shard, partial / "shards") / split for shard in shards]
            with (built / f"{split}.jsonl").open("wb") as stream:
                for line in once(parts, fresh(partial / "keys"), twice):
                    stream.write(line)
                    counts[split] += 1
            if not counts[split]:
                (built / f"{split}.jsonl").unlink()
            print(f"{split}: {counts[split]} rows")
        if not counts["train"]:
            raise SettingsError("no row is left for training")
        return built, {
            "form": "prompt",
            "splits": counts,
            "dropped": tell_rows(results, sum(counts.values()), there, twice),
        }

    prepare_rows(settings, recipe_folder, [], build)


def once(parts: Sequence[Path], folder: Path, twice: Counter[str]) -> Iterator[bytes]:
    """The lines of some parts (`PART.jsonl`, with a key for each in `PART.keys`), of each prompt the first one.

    Equal prompts are in one split. What is in memory does not depend on how many there are.

    Args:
        folder: an empty one, for what comes to be meanwhile.
        twice: gets the number of those that are left out.
    """
    later = repeats([part.with_suffix(".keys") for part in parts], folder)
    row, next_repeat = 0, next(later, None)
    for part in parts:
        with part.with_suffix(".jsonl").open("rb") as lines:
            for line in lines:
                if row == next_repeat:
                    twice["twice"] += 1
                    next_repeat = next(later, None)
                else:
                    yield line
                row += 1
