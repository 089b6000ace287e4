"""Composes a config that names no other as Hydra would, without importing Hydra, which takes as long as all the rest.

Where a file, its place or an override could mean more than it says, the answer is None, and Hydra is asked; so it is
where anything is wrong, which it has the words for. `tests/config/test_plain.py` holds the two equal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nemo_runspec.config.yaml_file import YamlChoice
from nemo_runspec.config.yaml_lines import refuse_bomb

_NAME = re.compile(r"[A-Za-z0-9][\w-]*")
"""Of a config; a longer one may be a group's, or say where in the whole it stands."""

_HEADER = re.compile(r"^\s*#\s*@", re.MULTILINE)
"""Begins a line that speaks to Hydra, such as `# @package _global_`."""

_HYDRA_READS = frozenset({"defaults", "hydra"})

_PART = r"[A-Za-z_]\w*"
_SETTING = re.compile(
    rf"(?P<key>(?!hydra\b){_PART}(?:\.{_PART})*)="
    r"(?:(?P<int>-?(?:0|[1-9][0-9]{0,17}))"
    r"|(?P<float>-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?:[eE][-+]?[0-9]{1,2})?)"
    r"|(?P<bool>true|false)"
    r"|(?P<word>(?!(?i:true|false|null|nan|inf)$)[A-Za-z_/][\w/.:@-]*)"
    r"|(?P<time>(?:[0-9]{1,3}-)?[0-9]{1,3}(?::[0-9]{2}){1,2}))",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Setting:
    """An override that sets one key to one value: `train.steps=5`."""

    text: str
    key: str
    value: Any


def plain_setting(text: str) -> Setting | None:
    """The override as Hydra's grammar reads it, or None where it is more than a key and a number, a word or a time."""
    match = _SETTING.fullmatch(text)
    if match is None:
        return None
    kind, value = next((kind, value) for kind, value in list(match.groupdict().items())[1:] if value is not None)
    read: dict[str, Any] = {"int": int, "float": float, "bool": "true".__eq__, "word": str, "time": str}
    return Setting(text, match["key"], read[kind](value))


def plain_config(choice: YamlChoice, keys: Iterable[str]) -> DictConfig | None:
    """The config, or None where Hydra has a say in it.

    Args:
        keys: those that are overridden, one of which may be a group's.

    Raises:
        UserError: the file stands for too much.
    """
    if not _NAME.fullmatch(choice.name) or not choice.file.is_file() or _is_group(choice, keys):
        return None
    if _is_registered(f"{choice.name}.yaml", *keys):
        return None
    refuse_bomb(choice.file)
    try:
        with choice.file.open(encoding="utf-8") as file:
            has_header = _HEADER.search(file.read(512))
        config = None if has_header else OmegaConf.load(choice.file)
    except (OSError, ValueError, RecursionError, yaml.YAMLError, OmegaConfBaseException):
        return None
    if not isinstance(config, DictConfig) or not _HYDRA_READS.isdisjoint(config.keys()):
        return None
    # Hydra leaves out a file of nothing but values that are still to be given.
    return config if any(not OmegaConf.is_missing(config, key) for key in config) else None


def _is_group(choice: YamlChoice, keys: Iterable[str]) -> bool:
    return any((folder / key).exists() for key in keys for folder in (choice.folder, *choice.search))


def _is_registered(*names: str) -> bool:
    """True if this process has given Hydra a schema or a group of such a name, as a program that uses both may."""
    module = sys.modules.get("hydra.core.config_store")
    return module is not None and not module.ConfigStore.instance().repo.keys().isdisjoint(names)
