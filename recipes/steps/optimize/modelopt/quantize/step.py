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
# name = "steps/optimize/modelopt/quantize"
# description = "Quantize a model to FP8, NVFP4, INT8 or INT4 after training, with Model Optimizer."
# kind = "tool"
# tags = ["modelopt", "quantize", "fp8", "nvfp4"]
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
# description = "The model to quantize."
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "training_jsonl"
# description = "Text or conversations to calibrate on; the examples that travel, where none is given."
# required = false
#
# [[tool.runspec.produces]]
# name = "model"
# type = "checkpoint_hf"
# description = "The quantized model as vLLM, TensorRT-LLM and SGLang load it."
#
# [[tool.runspec.parameters]]
# name = "format"
# description = "The number format that weights and activations get."
# choices = ["fp8", "nvfp4", "int8", "int8_smoothquant", "int4_awq"]
#
# [[tool.runspec.parameters]]
# name = "calibration.rows"
# description = "How many rows the ranges of activations are measured on."
# type = "int"
# min = 1
#
# [[tool.runspec.errors]]
# pattern = "partial blocks are not supported"
# cause = "A layer's width is no multiple of the block of int4_awq (128)."
# remedy = "format=fp8 or format=int8"
#
# [[tool.runspec.errors]]
# pattern = "CUDA out of memory"
# cause = "The model and a row do not fit in the GPUs' memory."
# remedy = "smaller calibration.tokens; or more GPUs"
# ///
"""Quantizes a model after training with Model Optimizer, and writes what inference servers load."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "_shared"))

from nemo_steps import causal, metrics, models, runner, tokens
from nemo_steps.config import Config, ConfigError, need, only, output_folder

FORMATS = {
    "fp8": "FP8_DEFAULT_CFG",
    "nvfp4": "NVFP4_DEFAULT_CFG",
    "int8": "INT8_DEFAULT_CFG",
    "int8_smoothquant": "INT8_SMOOTHQUANT_CFG",
    "int4_awq": "INT4_AWQ_CFG",
}
"""Format → the name of Model Optimizer's settings for it."""


def main(config: Config) -> None:
    """Measure the activations on the calibration rows, quantize, and export."""
    import modelopt.torch.quantization as mtq
    import torch
    from modelopt.torch.export import export_hf_checkpoint

    only(config, "", ("output_dir", "base", "format", "calibration", "dtype", "device"))
    only(config, "calibration", ("data", "rows", "tokens"))
    output, chosen = output_folder(config), need(config, "format", str)
    if chosen not in FORMATS:
        raise ConfigError(f"format must be one of {', '.join(FORMATS)}, not {chosen!r}")
    base = models.base(config)
    model, tokenizer = causal.load(base, need(config, "dtype", str), need(config, "device", str))
    quantized = mtq.quantize(model, getattr(mtq, FORMATS[chosen]), calibration(config, tokenizer))
    mtq.print_quant_summary(quantized)
    with torch.inference_mode():
        export_hf_checkpoint(quantized, export_dir=output)
    tokens.save(tokenizer, output)
    print(f"wrote {output}: {chosen}, {causal.size_of(base)} -> {causal.size_of(str(output))} bytes of weights")


def calibration(config: Config, tokenizer: Any) -> Callable[[Any], None]:
    """What runs the model on the calibration rows."""
    import torch

    rows = causal.batches(
        tokenizer,
        need(config, "calibration.data", str),
        tokens=need(config, "calibration.tokens", int),
        most=need(config, "calibration.rows", int),
    )

    def run(model: Any) -> None:
        for step, ids in enumerate(rows, start=1):
            with torch.no_grad():
                model(torch.tensor([ids], device=model.device))
            metrics.append(step=step, total_steps=len(rows))

    return run


if __name__ == "__main__":
    sys.exit(runner.start("Quantize a model after training.", main))
