"""Reads a recipe's YAML strictly into frozen dataclasses: an unknown or missing key is an error that names the key."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import gc
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

T = TypeVar("T")

# type of a field: what YAML may hold for it, and how that is called
PLAIN_TYPES: dict[object, tuple[tuple[type, ...], str]] = {
    Path: ((str, Path), "a path"),
    float: ((int, float), "a number"),
    int: ((int,), "a whole number"),
    bool: ((bool,), "true or false"),
    str: ((str,), "text"),
    dict: ((dict,), "a mapping"),
}


class SettingsError(ValueError):
    """Something in the configuration that its author can mend."""


def start(description: str, main: Callable[[dict[str, Any]], int | None]) -> int:
    """Run a recipe with its configuration; its exit status, 2 where the configuration must be mended."""
    try:
        return main(read_yaml(config_argument(description))) or 0
    except SettingsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        gc.freeze()  # Python looks through everything as it ends, several times


@contextmanager
def loading() -> Iterator[None]:
    """Around imports of large libraries, whose objects stay to the end: nobody looks for garbage among them, then or
    later.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def config_argument(description: str) -> Path:
    """Parse `--config FILE` from the command line and return the file."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--config", required=True, type=Path, help="plain YAML, every interpolation resolved")
    return typing.cast(Path, parser.parse_args().config)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping; the `run:` section, which belongs to the CLI, is left out where it is still there."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise SettingsError(f"cannot read {path}: {error}") from error
    if not isinstance(content, dict):
        raise SettingsError(f"{path} holds no mapping")
    return {key: value for key, value in content.items() if key != "run"}


def build(cls: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """Make the dataclass `cls` from a mapping, nested dataclasses and lists of them included."""
    if not isinstance(values, Mapping):
        raise SettingsError(f"{where or 'the configuration'} must be a mapping, not {values!r}")
    fields = {field.name: field for field in dataclasses.fields(typing.cast(Any, cls))}
    for key in values:
        if key not in fields:
            raise SettingsError(f"unknown key {_join(where, key)!r}{suggestion(str(key), fields)}")
    hints = typing.get_type_hints(cls)
    made = {key: _convert(hints[key], value, _join(where, key)) for key, value in values.items()}
    for name, field in fields.items():
        if name not in made and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise SettingsError(f"missing key {_join(where, name)!r}")
    return cls(**made)


def suggestion(key: str, known: typing.Iterable[str]) -> str:
    """Name the closest known key, or all of them; '' where there is none."""
    names = sorted(known)
    close = difflib.get_close_matches(key, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known keys: {', '.join(names)}" if names else ""


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else str(key)


def _convert(hint: object, value: object, where: str) -> object:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None and type(None) in options:
        return None
    hint = next(option for option in options if option is not type(None))
    if dataclasses.is_dataclass(hint):
        return build(typing.cast(type, hint), typing.cast(Mapping[str, Any], value), where)
    origin = typing.get_origin(hint)
    if origin is list:
        if not isinstance(value, list):
            raise SettingsError(f"{where} must be a list, not {value!r}")
        item = typing.get_args(hint)[0]
        return [_convert(item, entry, f"{where}[{index}]") for index, entry in enumerate(value)]
    return _plain(origin or hint, value, where)


def _plain(kind: object, value: object, where: str) -> object:
    accepted, wanted = PLAIN_TYPES[kind]
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise SettingsError(f"{where} must be {wanted}, not {value!r}")
    if kind is Path:
        return Path(typing.cast(str, value)).expanduser()
    return float(typing.cast(float, value)) if kind is float else value
