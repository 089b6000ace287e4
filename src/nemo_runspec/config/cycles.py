"""Defaults lists that lead back to themselves: Hydra follows such a circle until Python gives up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml


def circle_of(name: str, folders: Sequence[Path]) -> list[str]:
    """The configs of the first circle that `defaults` of a config lead into, its first one last too; else empty.

    Args:
        name: a config without `.yaml`.
        folders: where configs are looked for, the first one first.
    """
    return next(_circles(name, folders, ()), [])


def _circles(name: str, folders: Sequence[Path], above: tuple[str, ...]) -> Iterator[list[str]]:
    if name in above:
        yield [*above[above.index(name) :], name]
        return
    group = name.rpartition("/")[0]
    for entry in _defaults(name, folders):
        for other in _named(entry, group):
            yield from _circles(other, folders, (*above, name))


def _defaults(name: str, folders: Sequence[Path]) -> list[Any]:
    file = next((folder / f"{name}.yaml" for folder in folders if (folder / f"{name}.yaml").is_file()), None)
    try:
        read = yaml.safe_load(file.read_text(encoding="utf-8")) if file else None
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return []
    found = read.get("defaults") if isinstance(read, dict) else None
    return found if isinstance(found, list) else []


def _named(entry: Any, group: str) -> Iterator[str]:
    """The configs that one entry names: `other`, `group: choice`, `group: [a, b]`, `/absolute`, `name@package`."""
    if isinstance(entry, str) and entry != "_self_":
        yield _whole(entry, group)
    elif isinstance(entry, dict):
        for key, value in entry.items():
            words = str(key).removeprefix("override ").removeprefix("optional ").split("@")[0].strip()
            choices = value if isinstance(value, list) else [value]
            yield from (_whole(f"{words}/{choice}", group) for choice in choices if isinstance(choice, str))


def _whole(entry: str, group: str) -> str:
    name = entry.removeprefix("optional ").split("@")[0].strip().removesuffix(".yaml")
    return name[1:] if name.startswith("/") else f"{group}/{name}".lstrip("/")
