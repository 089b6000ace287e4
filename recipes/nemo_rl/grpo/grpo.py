# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.runspec]
# schema = "1"
# name = "nemo_rl/grpo"
# description = "Run a GRPO script of NeMo-RL's on the nodes and GPUs that the job has."
# kind = "train"
# tags = ["rl", "grpo", "nemo-rl"]
# image = "nvcr.io/nvidia/nemo-rl:v0.6.0"
# requires_env = ["HF_TOKEN"]
#
# [tool.runspec.run]
# launch = "ray"
# cmd = "uv run python {script} --config {config}"
# workdir = "/opt/nemo-rl"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 1
# gpus_per_node = 8
#
# [[tool.runspec.parameters]]
# name = "script_path"
# description = "The script: below NeMo-RL's source or your own repository, or absolute."
# type = "str"
# required = true
#
# [[tool.runspec.parameters]]
# name = "config_path"
# description = "Its configuration, which is looked for in the same places."
# type = "str"
# required = true
#
# [[tool.runspec.parameters]]
# name = "checkpointing.checkpoint_dir"
# description = "Where checkpoints are written; by default below this job's own outputs."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "cluster.num_nodes"
# description = "Nodes that the script is told of; by default all that the job has."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "cluster.gpus_per_node"
# description = "GPUs of each; by default all that the job has."
# type = "int"
# min = 0
#
# [[tool.runspec.parameters]]
# name = "overrides"
# description = "More of NeMo-RL's own overrides; what follows -- comes after them."
# type = "list"
#
# [[tool.runspec.errors]]
# pattern = "CUDA out of memory"
# cause = "The model, its optimizer and a batch do not fit in the GPUs' memory."
# remedy = "more nodes, or what shards the model further: -- policy.megatron_cfg.tensor_model_parallel_size=8"
#
# [[tool.runspec.errors]]
# pattern = "No available memory for the cache blocks"
# cause = "vLLM has no memory left for its cache."
# remedy = "-- policy.generation.vllm_cfg.gpu_memory_utilization=0.5, or fewer tokens"
# ///
"""Runs a script of NeMo-RL's: `uv run SCRIPT --config CONFIG`, and what it must know of the job as overrides.

Ray is there when this starts, with every node of the job in it; the script finds it by `RAY_ADDRESS`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

FILLED_IN = ("cluster.num_nodes", "cluster.gpus_per_node", "checkpointing.checkpoint_dir")
"""Keys of the configuration that the script gets as overrides, in this order."""


class Refused(ValueError):
    """Something that whoever has started the job can mend."""


def command(config: Mapping[str, Any], more: Sequence[str]) -> list[str]:
    """What is run.

    Args:
        config: the composed configuration. `more`: overrides of the command line, which come last.

    Raises:
        Refused: the script or its configuration is not there.
    """
    script, settings = (found(config, key) for key in ("script_path", "config_path"))
    filled_in = [f"{key}={_written(at(config, key))}" for key in FILLED_IN if at(config, key) is not None]
    return ["uv", "run", str(script), "--config", str(settings), *filled_in, *(config.get("overrides") or ()), *more]


def found(config: Mapping[str, Any], key: str) -> Path:
    """The file that a key names: absolute, below where NeMo-RL is, or below the user's own code.

    Raises:
        Refused: it is in none of these places.
    """
    named = Path(str(config[key])).expanduser()
    places = [place / named for place in _folders(config)]
    file = next((path for path in places if path.is_file()), None)
    if file is None:
        raise Refused(f"{key}: {named} is not there; looked for {', '.join(map(str, dict.fromkeys(places)))}")
    return file


def at(config: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, None where there is none."""
    value: Any = config
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def main() -> int:
    """Becomes the script, whose exit code and signals are the job's; 2 where there is nothing to run."""
    parser = argparse.ArgumentParser(description="Run a GRPO script of NeMo-RL's.", allow_abbrev=False)
    parser.add_argument("--config", required=True, type=Path, help="plain YAML, every interpolation resolved")
    given, more = parser.parse_known_args()
    config = yaml.safe_load(given.config.read_text(encoding="utf-8"))
    try:
        become(command(config, more), config)
    except Refused as error:
        print(f"error: {error}", file=sys.stderr)
    return 2


def become(words: Sequence[str], config: Mapping[str, Any]) -> NoReturn:
    """Runs a command in this process's place, where NeMo-RL is. Its checkpoints have a folder then."""
    if folder := at(config, "checkpointing.checkpoint_dir"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    print(f"+ {shlex.join(words)}", flush=True)
    os.chdir(config["source"])
    os.execvp(words[0], words)


def _folders(config: Mapping[str, Any]) -> Iterator[Path]:
    yield Path(config["source"])
    if job := os.environ.get("NEMOTRON_JOB_DIR"):
        yield Path(job, "code")


def _written(value: Any) -> str:
    """A value in Hydra's grammar: a path with `=`, a comma or a space in it is quoted."""
    text = str(value)
    plain = all(letter.isalnum() or letter in "/._-+:" for letter in text)
    return text if plain else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


if __name__ == "__main__":
    sys.exit(main())
