"""Trains with NeMo-RL: its own program, on its own configuration with our values laid over it.

NeMo-RL is no package: its container holds its source. A program of `examples/` reads `--config FILE`, whose `defaults`
names the file that it is laid over; a checkpoint lies in `<checkpoint_dir>/step_<n>/policy/weights`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from nemo_steps import files, models
from nemo_steps.config import Config, ConfigError, find, need, output_folder

OURS = frozenset({"output_dir", "base", "recipe", "reward", "source"})
"""Keys that are not NeMo-RL's."""

TO_HF = "examples/converters/convert_megatron_to_hf.py"
WEIGHTS = Path("policy/weights")
EXPORTED = "exported_from"
"""A file beside an exported checkpoint: which one it was. It is written last."""


def train(config: Config, program: str) -> None:
    """Train the policy that `base` holds, and put its last checkpoint into the output folder.

    Args:
        config: NeMo-RL's sections; `recipe` names its file that they are laid over, `source` where it is installed.
        program: the program of NeMo-RL's source that trains.

    Raises:
        ConfigError: NeMo-RL is not there, or the data or the checkpoint are not.
    """
    source, output = Path(need(config, "source", str)), output_folder(config)
    if not (source / program).is_file():
        raise ConfigError(f"NeMo-RL has no {source / program}: the job's image is to be nvcr.io/nvidia/nemo-rl:v0.6.0")
    for split in ("train", "validation"):
        files.find(need(config, f"data.{split}.data_path", str))
    settings = {"defaults": str(source / need(config, "recipe", str)), **_sections(config)}
    if base := find(config, "base", str):
        settings["policy"]["model_name"] = to_hf(source, settings, iteration(files.find(base)), output / "base_hf")
    _run(source, "uv", "run", program, "--config", write(settings, output / "nemo_rl.yaml"))
    publish(Path(need(config, "checkpointing.checkpoint_dir", str)), output)


def to_hf(source: Path, settings: dict[str, Any], megatron: Path, place: Path) -> str:
    """Export the policy's checkpoint, as NeMo-RL begins with a Hugging Face model; a whole export of it stays.

    The folder gets its name only when it is whole, with a note of what it was exported from.

    Args:
        source: where NeMo-RL is installed.
        settings: `policy.model_name` is a Hugging Face model of the same architecture.
        megatron: one iteration of a Megatron checkpoint.
        place: the folder to write.

    Raises:
        ConfigError: the converter has written no checkpoint.
    """
    if is_export_of(megatron, place):
        return str(place)
    partial = place.with_name(f".partial-{place.name}")
    shutil.rmtree(partial, ignore_errors=True)
    described = write({"policy": settings["policy"]}, place.with_name("policy.yaml"))
    named = ("--hf-model-name", settings["policy"]["model_name"])
    paths = ("--megatron-ckpt-path", str(megatron), "--hf-ckpt-path", str(partial))
    _run(source, "uv", "run", "--extra", "mcore", TO_HF, "--config", described, *named, *paths)
    if not (partial / "config.json").is_file():
        raise ConfigError(f"base {megatron}: NeMo-RL's converter has made no whole checkpoint")
    (partial / EXPORTED).write_text(str(megatron), encoding="utf-8")
    shutil.rmtree(place, ignore_errors=True)
    partial.rename(place)
    return str(place)


def is_export_of(megatron: Path, place: Path) -> bool:
    """Whether a folder holds all of the export of this checkpoint, and not of another one."""
    note = place / EXPORTED
    return note.is_file() and note.read_text(encoding="utf-8") == str(megatron)


def iteration(checkpoint: Path) -> Path:
    """The newest iteration of a Megatron checkpoint, or the iteration that the path is itself.

    Raises:
        ConfigError: there is none.
    """
    if found := models.newest(checkpoint):
        return found
    raise ConfigError(f"{checkpoint} holds no iter_<step>, as a Megatron checkpoint does; see convert/hf_to_megatron")


def publish(checkpoints: Path, output: Path) -> None:
    """Link the policy's weights of the last step into the output folder; nothing is copied on one file system.

    Raises:
        ConfigError: there is no checkpoint.
    """
    found = sorted(checkpoints.glob("step_*"), key=lambda folder: int(folder.name.rpartition("_")[2]))
    weights = found[-1] / WEIGHTS if found else None
    if weights is None or not weights.is_dir():
        raise ConfigError(f"{checkpoints} holds no step_<n>/{WEIGHTS}; see checkpointing.enabled, save_period")
    for file in sorted(path for path in weights.rglob("*") if path.is_file()):
        files.link(file, output / file.relative_to(weights))
    print(f"wrote {output}")


def write(settings: dict[str, Any], file: Path) -> str:
    """Write YAML, and give its path."""
    file.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return str(file)


def _sections(config: Config) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in OURS}


def _run(source: Path, *command: str) -> None:
    print("+ " + " ".join(command), flush=True)
    subprocess.run(command, cwd=source, check=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
