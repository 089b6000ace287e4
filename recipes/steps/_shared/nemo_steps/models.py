"""The model that a step begins with: a checkpoint, or a name of the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from nemo_steps import files
from nemo_steps.config import Config, ConfigError, find, only

HUB = "hf://"
"""How the path of an input begins that is a name of the Hugging Face hub."""


def base(config: Config, key: str = "base") -> str:
    """The path or the name of a model.

    Args:
        config: the step's configuration. Below `key`: `path` of a checkpoint, else `name` on the Hugging Face hub.

    Raises:
        ConfigError: neither is given, or there is no checkpoint at the path.
    """
    only(config, key, ("path", "name"))
    if path := find(config, f"{key}.path", str):
        return path_or_name(path)
    if name := find(config, f"{key}.name", str):
        return name
    raise ConfigError(f"{key} needs a path or a name")


def path_or_name(said: str) -> str:
    """What a library takes for `hf://NAME`: the name; anything else is a checkpoint's path.

    Raises:
        ConfigError: there is no checkpoint at the path.
    """
    return said[len(HUB) :] if said.startswith(HUB) else str(files.find(said))


def newest(checkpoint: Path) -> Path | None:
    """The newest iteration of a Megatron checkpoint, or the path itself where it is one; None where there is none."""
    if checkpoint.name.startswith("iter_") or (checkpoint / ".metadata").is_file():
        return checkpoint
    numbered = [(int(each.name[5:]), each) for each in checkpoint.glob("iter_*") if each.name[5:].isdecimal()]
    return max(numbered)[1] if numbered else None
