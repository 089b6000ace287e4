"""One YAML file of a configuration: which one is meant, and what its keys were when they were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from nemo_runspec.config.yaml_lines import read_yaml_text
from nemo_runspec.profiles.layers import flatten
from nemo_runspec.source import Layer, Source, display_path

_VARIABLES = "run.env.env_vars."


@dataclass(frozen=True)
class YamlChoice:
    """Which YAML is composed: `name` in `folder`, with `search` for what its `defaults:` name. None: no YAML."""

    name: str
    folder: Path
    search: tuple[Path, ...] = ()

    @property
    def file(self) -> Path:
        """Where it is."""
        return self.folder / f"{self.name}.yaml"


def restore_text(config: DictConfig, file: Path, package: str = "") -> dict[str, Source]:
    """Puts back what YAML 1.1 takes for numbers, and says where each of the file's values stands.

    A time limit is no number in base 60, a variable's `010` is no 8.

    Args:
        config: as loaded from `file`.
        package: the dotted path at which it stands in it.

    Returns: dotted path → the source of the value there.
    """
    prefix = f"{package}." if package else ""
    text = read_yaml_text(file)
    lines = {f"{prefix}{key}": line for key, line in text.lines.items()}
    _keep_text(config, {f"{prefix}{key}": value for key, value in text.clocks.items()})
    _keep_text(
        config,
        {path: value for key, value in text.plain.items() if (path := f"{prefix}{key}").startswith(_VARIABLES)},
    )
    shown = display_path(file)
    container: Any = OmegaConf.to_container(config, resolve=False)
    paths = flatten(container) if isinstance(container, dict) else ()
    return {path: Source(Layer.YAML, shown, _nearest_line(path, lines)) for path in paths}


def _keep_text(config: DictConfig, texts: Mapping[str, str]) -> None:
    """Puts texts at their dotted paths, where such a path leads to a value: a key may have a dot in it, or be none."""
    for path, text in texts.items():
        above, _, last = path.rpartition(".")
        table = _table_at(config, above)
        if table is not None and last in table.keys() and "${" not in text:  # noqa: SIM118  # `in` resolves values
            table[last] = text


def _table_at(config: DictConfig, path: str) -> DictConfig | None:
    node: Any = config
    for part in path.split(".") if path else ():
        node = node._get_node(part) if isinstance(node, DictConfig) and part in node.keys() else None  # noqa: SIM118
    return node if isinstance(node, DictConfig) else None


def _nearest_line(path: str, lines: Mapping[str, int]) -> int | None:
    while path:
        if path in lines:
            return lines[path]
        path = path.rpartition(".")[0]
    return None
