# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "nemo-automodel==0.7.0",
#   "pyyaml==6.0.3",
#   "torch==2.13.0",
# ]
#
# [tool.uv]
# # nemo-automodel 0.7.0 cannot be imported beside triton 3.9.
# override-dependencies = ["triton ; sys_platform == 'never'"]
#
# [tool.runspec]
# schema = "1"
# name = "steps/pretrain/automodel"
# description = "Pretrain a model from random weights on Megatron's indexed tokens, with NeMo AutoModel."
# kind = "train"
# tags = ["pretrain", "automodel"]
# image = "nvcr.io/nvidia/nemo-automodel:26.06"
# download = "about 1.5 GB with the CPU build of torch; several GB with the CUDA build"
#
# [tool.runspec.run]
# launch = "torchrun"
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
# name = "data"
# type = "binidx"
# description = "Pairs of .bin and .idx with their tokenizer, as data_prep/pretrain_prep writes them."
#
# [[tool.runspec.produces]]
# name = "model"
# type = "checkpoint_hf"
# description = "The trained model with its tokenizer, as transformers loads it."
#
# [[tool.runspec.parameters]]
# name = "model.config.hidden_size"
# description = "The model's width."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "model.config.num_hidden_layers"
# description = "How many layers the model has."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "dataset.seq_length"
# description = "Tokens per sequence."
# type = "int"
# min = 8
#
# [[tool.runspec.parameters]]
# name = "step_scheduler.max_steps"
# description = "How many optimizer steps at most."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "step_scheduler.global_batch_size"
# description = "Sequences per optimizer step, over all processes."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "optimizer.lr"
# description = "The highest learning rate."
# type = "float"
# min = 0
#
# [[tool.runspec.errors]]
# pattern = "Error building extension|Ninja is required"
# cause = "NeMo AutoModel compiles its index of samples when it starts, and there is no C++ compiler."
# remedy = "an image or machine with g++"
#
# [[tool.runspec.errors]]
# pattern = "CUDA out of memory"
# cause = "The model, its optimizer and a batch do not fit in the GPU's memory."
# remedy = "smaller step_scheduler.local_batch_size or dataset.seq_length; or more GPUs"
# ///
"""Pretrains from random weights with NeMo AutoModel's own recipe; the sections of the configuration are AutoModel's."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import automodel, binidx, files, runner, tokens
from nemo_steps.config import Config, ConfigError, find, need, output_folder

AUTOMODEL_SPLITS = {"train": "train", "valid": "validation", "test": "test"}


def main(config: Config) -> None:
    """Train on the datasets of `data`, with the tokenizer that lies beside them unless another is named."""
    data = need(config, "data", str)
    place = files.find(data if Path(data).exists() else f"{data}.idx")
    place = place.with_suffix("") if place.suffix == ".idx" else place
    tokenizer_path = find(config, "tokenizer.path", str) or str(beside(place))
    tokenizer = tokens.load(tokenizer_path)
    dataset, model = need(config, "dataset", dict), need(config, "model.config", dict)
    dataset["paths"] = paths_of(binidx.read_blend(place))
    dataset["tokenizer"] = {"_target_": "transformers.AutoTokenizer.from_pretrained"}
    dataset["tokenizer"]["pretrained_model_name_or_path"] = tokenizer_path
    model.setdefault("vocab_size", -(-len(tokenizer) // 128) * 128)
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        model.setdefault(name, getattr(tokenizer, name))
    automodel.train(config, automodel.WEIGHTS)
    tokens.save(tokenizer, output_folder(config))


def beside(place: Path) -> Path:
    """The tokenizer's folder, in the folder of the data or beside the prefix.

    Raises:
        ConfigError: it is not there.
    """
    for folder in (place, place.parent):
        if (folder / "tokenizer" / "tokenizer_config.json").is_file():
            return folder / "tokenizer"
    raise ConfigError(f"there is no tokenizer/ beside {place}: name one with tokenizer.path")


def paths_of(blend: binidx.Blend) -> dict[str, list[str]] | list[str]:
    """The data as AutoModel's `paths` wants them: weights and prefixes, by split where there are several."""
    flat = {
        split: [word for weight, prefix in blend[ours] for word in (str(weight), prefix)]
        for ours, split in AUTOMODEL_SPLITS.items()
    }
    if not flat["validation"] and not flat["test"]:
        return flat["train"]
    return {split: words for split, words in flat.items() if words}


if __name__ == "__main__":
    sys.exit(runner.start("Pretrain a model on indexed tokens.", main, alone=False))
