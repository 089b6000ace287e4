# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "numpy==2.4.6",
#   "pyyaml==6.0.3",
#   "tokenizers==0.23.3",
#   "transformers==5.23.0",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "steps/data_prep/pretrain_prep"
# description = "Tokenize documents into the pairs of .bin and .idx that Megatron and AutoModel pretrain on."
# kind = "data"
# tags = ["pretrain", "tokens", "megatron"]
# image = "nvcr.io/nvidia/nemo:26.04"
# download = "about 50 MB"
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
# type = "filtered_jsonl"
# description = "Documents: the text field of each row."
#
# [[tool.runspec.produces]]
# name = "tokens"
# type = "binidx"
# description = "PREFIX.bin and .idx per split, tokenizer/, blend.json and manifest.json."
#
# [[tool.runspec.parameters]]
# name = "tokenizer.path"
# description = "A folder or a name of the Hugging Face hub."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "text_field"
# description = "The field of a row that holds the text."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "split.valid"
# description = "Share of the documents that go to validation."
# type = "float"
# min = 0
# max = 1
#
# [[tool.runspec.parameters]]
# name = "workers"
# description = "Threads that tokenize."
# type = "int"
# min = 1
# ///
"""Tokenizes documents into Megatron's indexed datasets; the same rows give the same bytes."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import binidx, files, metrics, runner, tokens
from nemo_steps.config import Config, ConfigError, find, need, only, output_folder
from nemo_steps.splits import split_of

KEYS = ("output_dir", "data", "text_field", "name", "tokenizer", "split", "seed", "workers")
BATCH_DOCUMENTS = 1000


def main(config: Config) -> None:
    """Write the tokens, the tokenizer, the blend and, when all is there, the manifest."""
    only(config, "", KEYS)
    only(config, "tokenizer", ("path", "train_vocabulary"))
    only(config, "split", ("valid", "test"))
    os.environ["RAYON_NUM_THREADS"] = str(find(config, "workers", int) or 1)  # tokenizers reads it when it is imported
    output, name = output_folder(config), need(config, "name", str)
    rows = files.row_files(need(config, "data", str))
    tokenizer = tokens.make(need(config, "tokenizer", dict))
    counts = write(config, texts(rows, need(config, "text_field", str)), tokenizer, output / name)
    if not counts["train"]["documents"]:
        raise ConfigError("no document is left for training")
    tokens.save(tokenizer, output / "tokenizer")
    blend = {
        split: [(float(count["tokens"]), str(output / f"{name}_{split}"))] if count["documents"] else []
        for split, count in counts.items()
    }
    binidx.write_blend(output, blend)
    manifest = {"splits": counts, "vocabulary": len(tokenizer), "end_of_text": tokenizer.eos_token_id}
    (output / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    for split, count in counts.items():
        print(f"{split}: {count['documents']} documents, {count['tokens']} tokens")


def texts(rows: Iterable[Path], field: str) -> Iterator[str]:
    """The text of every row that has any.

    Raises:
        ConfigError: a row has no such field.
    """
    for number, row in enumerate(files.read_rows(rows), start=1):
        if not isinstance(row.get(field), str):
            raise ConfigError(f"row {number} has no text in {field!r}; it has {', '.join(sorted(row))}")
        if text := row[field].strip():
            yield text


def write(config: Config, documents: Iterator[str], tokenizer: Any, prefix: Path) -> dict[str, dict[str, int]]:
    """Tokenize every document into the dataset of its split; returns the documents and tokens of each."""
    seed = need(config, "seed", int)
    shares = need(config, "split.valid", float), find(config, "split.test", float) or 0.0
    counts = {split: {"documents": 0, "tokens": 0} for split in binidx.SPLITS}
    done = 0
    with binidx.writing(prefix.parent, prefix.name, len(tokenizer)) as writers:
        while batch := list(itertools.islice(documents, BATCH_DOCUMENTS)):
            for text, ids in zip(batch, tokenizer(batch, add_special_tokens=False)["input_ids"], strict=True):
                split = split_of(text, seed, *shares)
                writers[split].append([*ids, tokenizer.eos_token_id])
                counts[split]["documents"] += 1
                counts[split]["tokens"] += len(ids) + 1
            done += len(batch)
            metrics.append(step=done, documents=done)
    return counts


if __name__ == "__main__":
    sys.exit(runner.start("Tokenize documents for pretraining.", main))
