"""Lines of keys, and their texts, that parsed YAML no longer knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.regular import read_regular
from nemo_runspec.source import display_path

MOST_VALUES = 100_000
"""Values of one YAML file with its aliases written out. Nine lines of aliases of aliases can stand for billions."""

MOST_DEEP = 500
"""Levels of one file; Python's own readers of YAML end at about as many."""

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
    found = YamlText()
    try:
        root = _root(path)
        if _values_of(root, {}) <= MOST_VALUES:
            _collect(root, "", found)
    except (OSError, ValueError, RecursionError):
        return YamlText()
    return found


def refuse_bomb(path: Path) -> None:
    """Raises `UserError` for a file that is too large, or whose aliases stand for more than `MOST_VALUES` values.

    What else is wrong with it the loader reports.
    """
    try:
        if b"*" not in read_regular(path, follow=True) or _values_of(_root(path), {}) <= MOST_VALUES:
            return
    except OSError as error:
        raise UserError(f"cannot read the config: {error.strerror}", where=display_path(path)) from None
    except (ValueError, RecursionError):
        return
    raise UserError(
        f"its aliases (*name) stand for more than {MOST_VALUES:,} values",
        where=display_path(path),
        remedy="write a table once, and refer to it with ${path.of.the.table}",
    )


def _root(path: Path) -> Any:
    """The file's nodes. Raises `ValueError` for what is not valid YAML."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = read_regular(path, follow=True).decode("utf-8")
    try:
        _refuse_deep(yaml.parse(text, Loader=loader))
        return yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _refuse_deep(events: Iterator[Any]) -> None:
    """Raises `ValueError` for what is nested so deeply that libyaml's composer would overflow the stack."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > MOST_DEEP:
            raise ValueError("it is nested too deeply")


def _values_of(node: Any, known: dict[int, int]) -> int:
    """How many values a node stands for, its aliases written out; one that holds itself stands for too many.

    Args:
        known: of nodes that were counted; those being counted are too many.
    """
    if node is None or node.id == "scalar":
        return 1
    if id(node) not in known:
        known[id(node)] = MOST_VALUES + 1
        below = [part for pair in node.value for part in pair] if node.id == "mapping" else node.value
        known[id(node)] = 1 + sum(_values_of(part, known) for part in below)
    return known[id(node)]


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
