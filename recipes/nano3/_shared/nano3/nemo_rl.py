"""Reinforcement learning at full size: NeMo-RL's own program, on its own configuration with our values laid over it.

NeMo-RL is no package: its container holds its source. A program of `examples/` reads `--config FILE`, whose `defaults`
names the file that it is laid over.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nano3.dataset_folder import check_prepared
from nano3.settings import SettingsError

PROGRAM = "examples/run_grpo.py"
TO_HF = "examples/converters/convert_megatron_to_hf.py"
EXPORTED = "exported_from"
"""A file beside an exported checkpoint: which one it was. It is written last."""


@dataclass(frozen=True)
class NemoRlSettings:
    """What is run: `nemo_rl` holds NeMo-RL's own sections, laid over `recipe`, a file of its `source`.

    `base` is the model to begin with: Megatron checkpoints, or a folder with `hf/`; null for `policy.model_name` as
    the hub has it.
    """

    output_dir: Path
    source: Path
    recipe: str
    nemo_rl: dict[str, Any] = field(default_factory=dict)
    base: Path | None = None


def train(settings: NemoRlSettings) -> int:
    """Train the policy; NeMo-RL's exit status.

    Raises:
        SettingsError: NeMo-RL is not there, or the data or the model are not.
    """
    source, output, sections = settings.source, settings.output_dir, settings.nemo_rl
    for file in (PROGRAM, settings.recipe):
        if not (source / file).is_file():
            raise SettingsError(f"source {source} has no {file}: the job is to run in NeMo-RL's container")
    for split in ("train", "validation"):
        path = f"data.{split}.data_path"
        rows = Path(str(_at(sections, path)))
        if not rows.is_file():
            raise SettingsError(f"nemo_rl.{path}: {rows} is not there")
        check_prepared(rows.parent, rows.name, key=f"nemo_rl.{path}")
    output.mkdir(parents=True, exist_ok=True)
    whole = {"defaults": str(source / settings.recipe), **sections}
    if settings.base is not None:
        whole["policy"] = {**sections.get("policy", {}), "model_name": str(_hugging_face(settings, settings.base))}
    return _run(source, "uv", "run", PROGRAM, "--config", _written(whole, output / "nemo_rl.yaml"))


def _hugging_face(settings: NemoRlSettings, base: Path) -> Path:
    """The model as a Hugging Face checkpoint, by which NeMo-RL begins; exported where it is one of Megatron's."""
    if (base / "hf" / "config.json").is_file():
        return base / "hf"
    megatron = newest_iteration(base)
    if megatron is None:
        raise SettingsError(f"base {base} holds neither hf/ nor iter_<step> of a Megatron checkpoint")
    place = settings.output_dir / "base_hf"
    if not is_export_of(megatron, place):
        _export(settings, megatron, place)
    return place


def is_export_of(megatron: Path, place: Path) -> bool:
    """Whether a folder holds all of the export of this checkpoint, and not of another one."""
    note = place / EXPORTED
    return note.is_file() and note.read_text(encoding="utf-8") == str(megatron)


def _export(settings: NemoRlSettings, megatron: Path, place: Path) -> None:
    """Export a checkpoint into a folder that gets its name only when it is whole."""
    partial, policy = place.with_name(f".partial-{place.name}"), settings.nemo_rl["policy"]
    shutil.rmtree(partial, ignore_errors=True)
    described = _written({"policy": policy}, settings.output_dir / "policy.yaml")
    named = ("--hf-model-name", str(policy["model_name"]))
    paths = ("--megatron-ckpt-path", str(megatron), "--hf-ckpt-path", str(partial))
    status = _run(settings.source, "uv", "run", "--extra", "mcore", TO_HF, "--config", described, *named, *paths)
    if status or not (partial / "config.json").is_file():
        raise SettingsError(
            f"base {megatron}: NeMo-RL's converter ended with {status}, and has made no whole checkpoint"
        )
    (partial / EXPORTED).write_text(str(megatron), encoding="utf-8")
    shutil.rmtree(place, ignore_errors=True)
    partial.rename(place)


def newest_iteration(base: Path) -> Path | None:
    """The newest `iter_<step>` of a folder, or of its `checkpoints`; None where there is none."""
    found = [*base.glob("iter_*"), *base.glob("checkpoints/iter_*")]
    return max(found, key=lambda folder: int(folder.name.rpartition("_")[2]), default=None)


def _at(values: Mapping[str, Any], path: str) -> Any:
    found: Any = values
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _written(values: dict[str, Any], file: Path) -> str:
    file.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return str(file)


def _run(source: Path, *command: str) -> int:
    print("+ " + " ".join(command), flush=True)
    return subprocess.run(command, cwd=source, check=False, env={**os.environ, "PYTHONUNBUFFERED": "1"}).returncode
