"""`[tool.uv]` of a script's PEP 723 block, by which its author tells uv where packages come from.

uv reads it out of a script. A plan keeps it as text, its relative paths made absolute; the environment's own folder
gets a script with it, and uv does what it says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_runspec.toml import as_toml, key_as_toml, parse_toml

_SETUP = ("pyproject.toml", "setup.cfg", "setup.py")
"""What a package in a folder is made by; of one that is editable only this decides what is installed."""


def uv_table(document: Mapping[str, Any], folder: Path) -> str:
    """The lines of a block's `[tool.uv]`, one for each key, in TOML; '' where it has none.

    Args:
        document: the block.
        folder: the script's, from which relative paths lead.
    """
    tool = document.get("tool")
    table = tool.get("uv") if isinstance(tool, Mapping) else None
    if not isinstance(table, Mapping):
        return ""
    absolute = _with_paths(table, lambda path: path if "://" in path else os.path.normpath(folder.absolute() / path))
    return "".join(f"{key_as_toml(key)} = {as_toml(value)}\n" for key, value in sorted(absolute.items()))


def script_of(dependencies: Sequence[str], requires_python: str | None, uv: str) -> str:
    """A script of nothing but a block, for uv to read.

    Args:
        uv: as `uv_table` gives it.
    """
    lines = [f"dependencies = {as_toml(list(dependencies))}"]
    lines += [f"requires-python = {as_toml(requires_python)}"] if requires_python else []
    lines += ["[tool.uv]", *uv.rstrip("\n").split("\n")]
    return "".join(f"# {line}\n" for line in ("/// script", *lines, "///"))


def local_sources(uv: str) -> list[list[Any]]:
    """What decides what the packages hold that it takes from this machine: each file with its size and its time."""
    table = parse_toml(uv, "[tool.uv]")
    places = (source for value in table.get("sources", {}).values() for source in _sources(value))
    return [fact for source in places if "path" in source for fact in _facts(source)]


def _facts(source: Mapping[str, Any]) -> Iterator[list[Any]]:
    path = Path(str(source["path"]))
    files = [path / name for name in _SETUP] if source.get("editable") else _files(path)
    for file in files:
        if file.is_file():
            seen = file.stat()
            yield [str(file), seen.st_size, seen.st_mtime_ns]


def _files(path: Path) -> list[Path]:
    """The file, or those of a folder, without what is hidden or made by running it."""
    found = [path]
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name[0] != "." and name != "__pycache__")
        found += [Path(folder) / name for name in sorted(names) if name[0] != "."]
    return found


def _with_paths(table: Mapping[str, Any], absolute: Callable[[str], str]) -> dict[str, Any]:
    """The table with its paths made absolute: of sources, of indexes, of folders of wheels."""
    found = dict(table)
    if isinstance(sources := table.get("sources"), Mapping):
        found["sources"] = {
            name: _each(value, lambda each: _at(each, "path", absolute)) for name, value in sources.items()
        }
    if "index" in table:
        found["index"] = _each(table["index"], lambda each: _at(each, "url", absolute))
    for key in ("find-links", "index-url", "extra-index-url"):
        if key in table:
            found[key] = _each(table[key], lambda each: absolute(each) if isinstance(each, str) else each)
    return found


def _sources(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, Mapping)]


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    return [change(each) for each in value] if isinstance(value, list) else change(value)


def _at(value: Any, key: str, change: Callable[[str], str]) -> Any:
    if not isinstance(value, Mapping) or not isinstance(value.get(key), str):
        return value
    return {**value, key: change(value[key])}
