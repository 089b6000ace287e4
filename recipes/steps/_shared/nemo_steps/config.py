"""Reads a step's configuration: plain YAML, of which single values are asked for by their dotted path and type."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

T = TypeVar("T")
Config = dict[str, Any]

_WORDS: dict[type, str] = {
    bool: "true or false",
    dict: "a mapping",
    float: "a number",
    int: "a whole number",
    list: "a list",
    str: "text",
}


class ConfigError(ValueError):
    """Something in the configuration that its author can mend."""


def read(path: Path) -> Config:
    """Read a YAML mapping. Its `run` section, which belongs to the command line, is left out.

    Raises:
        ConfigError: the file cannot be read, or holds no mapping.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} holds no mapping")
    return {key: value for key, value in content.items() if key != "run"}


def find(config: Mapping[str, Any], path: str, kind: type[T]) -> T | None:
    """The value at a dotted path; None where it is absent or null. A whole number is a number too.

    Raises:
        ConfigError: it is of another type.
    """
    value: Any = config
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return kind(value)
    if value is None or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
        return value
    raise ConfigError(f"{path} must be {_WORDS[kind]}, not {value!r}")


def need(config: Mapping[str, Any], path: str, kind: type[T]) -> T:
    """The value at a dotted path.

    Raises:
        ConfigError: it is absent, null or of another type.
    """
    value = find(config, path, kind)
    if value is None:
        raise ConfigError(f"{path} must be given: {_WORDS[kind]}")
    return value


def only(config: Mapping[str, Any], path: str, known: Collection[str]) -> None:
    """Refuse keys below `path` ('' for the whole configuration) that nothing would read.

    Raises:
        ConfigError: there are some.
    """
    table = find(config, path, dict) if path else config
    if unknown := sorted(set(table or {}) - set(known)):
        where = f" below {path}" if path else ""
        raise ConfigError(f"unknown key{where}: {', '.join(unknown)}; known: {', '.join(sorted(known))}")


def output_folder(config: Mapping[str, Any]) -> Path:
    """The folder that `output_dir` names, made where it is not there yet."""
    folder = Path(need(config, "output_dir", str)).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
