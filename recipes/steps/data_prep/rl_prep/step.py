# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "pyyaml==6.0.3",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "steps/data_prep/rl_prep"
# description = "Turn conversations into prompts with their answers or preferences, checked and split, for NeMo-RL."
# kind = "data"
# tags = ["rl", "dpo", "nemo-rl"]
# image = "nvcr.io/nvidia/nemo:26.04"
# download = "about 1 MB"
#
# [tool.runspec.run]
# launch = "direct"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 1
# gpus_per_node = 0
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "training_jsonl"
# description = "Conversations, prompts with answers, or preferences."
#
# [[tool.runspec.produces]]
# name = "prompts"
# type = "training_jsonl"
# description = "train.jsonl and valid.jsonl in the form that NeMo-RL reads, and manifest.json."
#
# [[tool.runspec.parameters]]
# name = "form"
# description = "What a row becomes: prompt (RLVR), preference (DPO) or chat."
# choices = ["prompt", "preference", "chat"]
#
# [[tool.runspec.parameters]]
# name = "valid_share"
# description = "Share of the rows that go to validation."
# type = "float"
# min = 0
# max = 1
#
# [[tool.runspec.parameters]]
# name = "max_characters"
# description = "Rows with a longer prompt are left out."
# type = "int"
# min = 1
# ///
"""Turns rows into those that NeMo-RL 0.6 reads: prompts, preferences or conversations; checked and split."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import files, rl_rows, runner
from nemo_steps.config import Config, ConfigError, need, only, output_folder
from nemo_steps.splits import split_of

KEYS = ("output_dir", "data", "form", "valid_share", "max_characters", "seed")
SPLITS = ("train", "valid")


def main(config: Config) -> None:
    """Write train.jsonl, valid.jsonl and, when both are there, the manifest."""
    only(config, "", KEYS)
    output, form = output_folder(config), need(config, "form", str)
    if form not in rl_rows.FORMS:
        raise ConfigError(f"form must be one of {', '.join(rl_rows.FORMS)}, not {form!r}")
    rows = list(files.row_files(need(config, "data", str)))
    kept = Kept(rl_rows.FORMS[form], need(config, "max_characters", int))
    shares = need(config, "seed", int), need(config, "valid_share", float)
    splits: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    for key, row in kept.rows(rows):
        splits[split_of(key, *shares)].append(row)
    if not splits["train"]:
        raise ConfigError("no row is left for training")
    written = {split: files.write_rows(output / f"{split}.jsonl", made) for split, made in splits.items() if made}
    manifest = {"form": form, "splits": written, **kept.counts}
    (output / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    print(", ".join(f"{split}: {count} rows" for split, count in written.items()))
    print(", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in kept.counts.items()))


class Kept:
    """The rows that are kept, and how many there were."""

    def __init__(self, make: Callable[[dict[str, Any], int], rl_rows.Row | None], max_characters: int) -> None:
        self._make, self._max = make, max_characters
        self._seen: set[str] = set()
        self.counts = {"read": 0, "without_answer": 0, "too_long": 0, "twice": 0}

    def rows(self, paths: list[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The prompt, by which a row is known, and the row."""
        for source in files.read_rows(paths):
            self.counts["read"] += 1
            made = self._make(source, self.counts["read"])
            if reason := self._why_not(made):
                self.counts[reason] += 1
            elif made is not None:
                self._seen.add(made.prompt)
                yield made.prompt, made.content

    def _why_not(self, made: rl_rows.Row | None) -> str | None:
        if made is None:
            return "without_answer"
        if len(made.prompt) > self._max:
            return "too_long"
        return "twice" if made.prompt in self._seen else None


if __name__ == "__main__":
    sys.exit(runner.start("Prepare prompts for reinforcement learning.", main))
