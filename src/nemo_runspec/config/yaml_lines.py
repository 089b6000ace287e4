"""What the parsed YAML no longer knows: the line of every key, and the text that stood there."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_NULL = "tag:yaml.org,2002:null"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


@dataclass
class YamlText:
    """Of one file, by dotted path (lists are leaves).

    Args:
        lines: 1-based line of each key.
        plain: the text of unquoted scalars other than null.
        clocks: unquoted scalars such as `10:00:00`, which YAML 1.1 takes for a number in base 60.
    """

    lines: dict[str, int] = field(default_factory=dict)
    plain: dict[str, str] = field(default_factory=dict)
    clocks: dict[str, str] = field(default_factory=dict)


def read_yaml_text(path: Path) -> YamlText:
    """Lines and texts of a file. Empty for a file that is not valid YAML: the loader reports that."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = YamlText()
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=loader)
        _collect(root, "", found)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return YamlText()
    return found


def yaml_key_lines(path: Path) -> dict[str, int]:
    """Dotted path → 1-based line."""
    return read_yaml_text(path).lines


def _collect(node: Any, prefix: str, found: YamlText) -> None:
    if node is None or node.id != "mapping":
        return
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        found.lines[path] = key.start_mark.line + 1
        if value.id == "scalar" and not value.style and value.tag != _NULL:
            found.plain[path] = value.value
            if value.tag in _NUMBERS and ":" in value.value:
                found.clocks[path] = value.value
        _collect(value, f"{path}.", found)
