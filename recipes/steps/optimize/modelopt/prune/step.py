# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "accelerate==1.15.0",
#   "jinja2==3.1.6",
#   "nvidia-modelopt==0.47.0",
#   "pyyaml==6.0.3",
#   "requests==2.34.2",
#   "torch==2.13.0",
#   "transformers==5.23.0",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "steps/optimize/modelopt/prune"
# description = "Leave out the feed-forward channels and layers that matter least, with Model Optimizer."
# kind = "train"
# tags = ["modelopt", "prune"]
# image = "nvcr.io/nvidia/nemo:26.04"
# download = "about 1.1 GB with the CPU build of torch; several GB with the CUDA build"
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
# gpus_per_node = 8
#
# [[tool.runspec.consumes]]
# name = "base"
# type = "checkpoint_hf"
# description = "The model to prune."
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "training_jsonl"
# description = "Text or conversations by which parts are judged; the examples that travel, where none is given."
# required = false
#
# [[tool.runspec.produces]]
# name = "model"
# type = "checkpoint_hf"
# description = "The pruned model with its tokenizer, as transformers loads it."
#
# [[tool.runspec.parameters]]
# name = "keep.ffn"
# description = "The share of every feed-forward block's channels that is kept."
# type = "float"
# min = 0
# max = 1
#
# [[tool.runspec.parameters]]
# name = "keep.layers"
# description = "How many layers are kept; all where it is null."
# type = "int"
# min = 1
# ///
"""Leaves out the layers and feed-forward channels that matter least; channels are scored by Model Optimizer's hooks.

What it writes is a plain checkpoint of the same kind. It answers worse than before: distill it afterwards.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "_shared"))

from nemo_steps import causal, metrics, models, runner, smaller, tokens
from nemo_steps.config import Config, find, need, only, output_folder

KEYS = ("output_dir", "base", "keep", "calibration", "dtype", "device")


def main(config: Config) -> None:
    """Score the parts on the calibration rows, leave out the rest, and write the model with its tokenizer."""
    only(config, "", KEYS)
    only(config, "keep", ("ffn", "ffn_multiple", "layers"))
    only(config, "calibration", ("data", "rows", "tokens"))
    output = output_folder(config)
    model, tokenizer = causal.load(models.base(config), need(config, "dtype", str), need(config, "device", str))
    before = model.num_parameters()
    scores = measure(config, model, tokenizer)
    width = smaller.width_of(model, find(config, "keep.ffn", float) or 1.0, find(config, "keep.ffn_multiple", int) or 1)
    smaller.narrow_feed_forward(model, scores.channels, width)
    kept = smaller.most(scores.layers, find(config, "keep.layers", int) or len(scores.layers))
    pruned = causal.with_layers(model, kept) if len(kept) < len(scores.layers) else model
    pruned.save_pretrained(output)
    tokens.save(tokenizer, output)
    told = {"parameters": [before, pruned.num_parameters()], "intermediate_size": width, "layers": kept}
    (output / "pruned.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {output}: {before} -> {pruned.num_parameters()} parameters")


def measure(config: Config, model: Any, tokenizer: Any) -> smaller.Scores:
    """Run the model on the calibration rows and score every layer and feed-forward channel."""
    import torch

    rows = causal.batches(
        tokenizer,
        need(config, "calibration.data", str),
        tokens=need(config, "calibration.tokens", int),
        most=need(config, "calibration.rows", int),
    )
    with smaller.scoring(model) as scores:
        for step, ids in enumerate(rows, start=1):
            with torch.no_grad():
                model(torch.tensor([ids], device=model.device))
            metrics.append(step=step, total_steps=len(rows))
    return scores


if __name__ == "__main__":
    sys.exit(runner.start("Prune a model.", main))
