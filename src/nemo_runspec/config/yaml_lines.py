"""The line of every key of a YAML file, by dotted path."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def yaml_key_lines(path: Path) -> dict[str, int]:
    """Dotted path → 1-based line. Lists are leaves. Empty for a file that is not valid YAML."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    lines: dict[str, int] = {}
    _collect(root, "", lines)
    return lines


def _collect(node: Any, prefix: str, lines: dict[str, int]) -> None:
    if node is None or not hasattr(node, "value") or node.id != "mapping":
        return
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        lines[path] = key.start_mark.line + 1
        _collect(value, f"{path}.", lines)
