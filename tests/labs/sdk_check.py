"""Values held against the types of one SDK, in a process that has only that SDK: `labs.sdks.problems` starts it.

Reads from standard input `[{"where", "type", "value", "beside", "whole"}, …]`; writes what is wrong as a JSON list of
lines. A type is `package.module:Class`, or `[package.module:Class]` for a list of it; `package.module:function` is one
that raises ValueError.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError


def main() -> None:
    """The whole program."""
    samples = json.load(sys.stdin)
    for sample in samples:
        _without_init(sample["type"].strip("[]").partition(":")[0])
    found = [f"{each['where']}: {line}" for each in samples for line in _wrong(each)]
    json.dump(sorted(set(found)), sys.stdout)


def _without_init(module: str) -> None:
    """Makes the module's packages importable without their `__init__`, which imports a client with all its needs."""
    parts = module.split(".")[:-1]
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        if name not in sys.modules:
            made = types.ModuleType(name)
            folders = [Path(entry, *parts[:count]) for entry in sys.path if Path(entry, *parts[:count]).is_dir()]
            made.__path__ = [str(folders[0])]
            sys.modules[name] = made


def _wrong(sample: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a value: fields that its type does not have; then what the type itself refuses."""
    text = sample["type"]
    module, _, name = text.strip("[]").partition(":")
    kind = getattr(importlib.import_module(module), name)
    if isinstance(kind, types.FunctionType):
        yield from _refused(kind, sample["value"])
        return
    beside = set(sample.get("beside") or ())
    values = sample["value"] if text.startswith("[") else [sample["value"]]
    if not isinstance(values, list):
        yield "is no list"
        return
    for value in values:
        strange = (each for each in _unknown(kind, value, "") if each[0] not in beside)
        yield from (f"{path}: no such field of {owner}" for path, owner in strange)
        yield from _refused(kind, value) if sample["whole"] else ()


def _refused(kind: Any, value: Any) -> Iterator[str]:
    # Generated clients read with `from_dict`, by which alone their "one of" types can be made.
    read = getattr(kind, "from_dict", None) or getattr(kind, "model_validate", kind)
    try:
        read(value)
    except ValidationError as error:
        for each in error.errors():
            yield f"{'.'.join(map(str, each['loc']))}: {each['msg']} (it is {each['input']!r:.80})"
    except (ValueError, TypeError) as error:
        yield str(error)[:300]


Unknown = tuple[str, str]


def _unknown(kind: Any, value: Any, path: str) -> list[Unknown]:
    """The fields that a type does not have: each with its path, and the type."""
    origin, args = get_origin(kind), get_args(kind)
    if value is None:
        return []
    if origin is Annotated:
        return _unknown(args[0], value, path)
    if origin in (Union, types.UnionType):
        return _least(args, value, path)
    if origin is list and isinstance(value, list):
        return [each for item in value for each in _unknown(args[0], item, path)]
    if origin is dict and isinstance(value, dict):
        return [each for item in value.values() for each in _unknown(args[1], item, f"{path}.*")]
    if isinstance(kind, type) and issubclass(kind, BaseModel) and isinstance(value, dict):
        return _of_model(kind, value, path)
    return []


def _of_model(kind: type[BaseModel], value: Mapping[str, Any], path: str) -> list[Unknown]:
    if "actual_instance" in kind.model_fields:  # a generated "one of" or "any of"
        return _least(list(_choices(kind)), value, path)
    fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    found: list[Unknown] = []
    for key, item in value.items():
        inner = f"{path}.{key}".lstrip(".")
        found += _unknown(fields[key], item, inner) if key in fields else [(inner, kind.__name__)]
    return found


def _choices(kind: type[BaseModel]) -> Iterator[Any]:
    for name, field in kind.model_fields.items():
        if name.startswith(("oneof_schema_", "anyof_schema_")):
            yield field.annotation


def _least(kinds: Iterable[Any], value: Any, path: str) -> list[Unknown]:
    """Those of the choice that fits best."""
    tried = [_unknown(kind, value, path) for kind in kinds if kind is not type(None)]
    return min(tried, key=len, default=[])


if __name__ == "__main__":
    main()
