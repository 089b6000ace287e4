# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "numpy==2.4.6",
#   "pyyaml==6.0.3",
#   "tokenizers==0.23.3",
#   "transformers==5.23.0",
#   "jinja2==3.1.6",
#   "pyarrow==26.0.1",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "steps/data_prep/sft_packing"
# description = "Tokenize conversations and pack them into rows of one length: Parquet for supervised fine-tuning."
# kind = "data"
# tags = ["sft", "tokens", "megatron"]
# image = "nvcr.io/nvidia/nemo:26.04"
# download = "about 100 MB"
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
# description = "Conversations: messages with role and content."
#
# [[tool.runspec.produces]]
# name = "packed"
# type = "packed_parquet"
# description = "train.parquet and valid.parquet: input_ids, loss_mask, seq_start_id; tokenizer/ and manifest.json."
#
# [[tool.runspec.parameters]]
# name = "sequence_length"
# description = "How many tokens a packed row holds at most."
# type = "int"
# min = 8
#
# [[tool.runspec.parameters]]
# name = "tokenizer.path"
# description = "A folder or a name of the Hugging Face hub, with a chat template."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "valid_share"
# description = "Share of the conversations that go to validation."
# type = "float"
# min = 0
# max = 1
#
# [[tool.runspec.parameters]]
# name = "too_long"
# description = "What happens to a conversation that is longer than a row."
# choices = ["drop", "cut", "fail"]
# ///
"""Renders conversations with the tokenizer's chat template and packs them into rows of one length.

A row is as Megatron-Bridge 0.3.1 reads packed sequences (`data/datasets/packing_utils.py`): `input_ids`, `loss_mask`
with a 1 where the *next* token is the assistant's, and `seq_start_id`, where each conversation begins.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import chat, files, metrics, packing, runner, tokens
from nemo_steps.config import Config, ConfigError, need, only, output_folder
from nemo_steps.splits import split_of

KEYS = ("output_dir", "data", "tokenizer", "sequence_length", "too_long", "valid_share", "seed")
TOO_LONG = ("drop", "cut", "fail")
WINDOW = 10_000
"""Conversations that are looked at together when rows are filled."""


def main(config: Config) -> None:
    """Write train.parquet and valid.parquet, the tokenizer and, when all is there, the manifest."""
    only(config, "", KEYS)
    only(config, "tokenizer", ("path", "train_vocabulary"))
    output, length = output_folder(config), need(config, "sequence_length", int)
    seed, share = need(config, "seed", int), need(config, "valid_share", float)
    rows = list(files.row_files(need(config, "data", str)))
    tokenizer = tokens.make(need(config, "tokenizer", dict))
    kept = Kept(tokenizer, length, need(config, "too_long", str))
    with packing.Writers(output, length) as writers:
        pairs = kept.conversations(rows)
        while window := list(itertools.islice(pairs, WINDOW)):
            for split in packing.SPLITS:
                mine = [made for key, made in window if split_of(key, seed, share) == split]
                writers.write(split, packing.pack(mine, length))
            metrics.append(step=kept.counts["conversations"], conversations=kept.counts["conversations"])
    if not writers.counts["train"]["rows"]:
        first = f": {kept.first_left_out}" if kept.first_left_out else ""
        raise ConfigError(f"no conversation is left for training{first}")
    tokens.save(tokenizer, output / "tokenizer")
    manifest = {"sequence_length": length, "splits": writers.counts, **kept.counts}
    (output / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    print(f"{kept.counts['conversations']} conversations, {kept.counts['too_long']} too long ({kept.too_long})")
    if kept.first_left_out:
        print(f"{kept.counts['not_learnable']} left out, as nothing can be learnt of them; {kept.first_left_out}")
    for split, count in writers.counts.items():
        print(f"{split}: {count['rows']} rows, {count['tokens']} tokens, {packing.filled(count, length):.1%} filled")


class Kept:
    """The conversations that are kept, and how many there were."""

    def __init__(self, tokenizer: Any, length: int, too_long: str) -> None:
        if too_long not in TOO_LONG:
            raise ConfigError(f"too_long must be one of {', '.join(TOO_LONG)}, not {too_long!r}")
        self.render = chat.Renderer(tokenizer)
        self.length, self.too_long = length, too_long
        self.counts = {"conversations": 0, "too_long": 0, "without_answer": 0, "not_learnable": 0}
        self.first_left_out = ""

    def conversations(self, rows: Iterable[Path]) -> Iterator[tuple[str, packing.Sequence]]:
        """What a row says, and its tokens."""
        for row in files.read_rows(rows):
            self.counts["conversations"] += 1
            try:
                made = self.render(row, self.counts["conversations"])
            except chat.LeftOutError as error:
                self.counts["not_learnable"] += 1
                self.first_left_out = self.first_left_out or f"row {self.counts['conversations']}: {error}"
                continue
            if len(made.ids) > self.length:
                made = self._shortened(made)
            if made is not None and any(made.mask):
                yield json.dumps(row, sort_keys=True), made
            elif made is not None:
                self.counts["without_answer"] += 1

    def _shortened(self, made: packing.Sequence) -> packing.Sequence | None:
        self.counts["too_long"] += 1
        if self.too_long == "fail":
            number, found = self.counts["conversations"], len(made.ids)
            raise ConfigError(f"conversation {number} has {found} tokens, and a row holds {self.length}")
        return None if self.too_long == "drop" else made.cut(self.length)


if __name__ == "__main__":
    sys.exit(runner.start("Pack conversations for fine-tuning.", main))
