"""Values of declared types as plain JSON data, and back: dataclasses, enumerations, tuples, lists and tables."""

from __future__ import annotations

import dataclasses
import types
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_SCALARS = frozenset({str, int, float, bool})
"""Types whose values are as they should be at one glance: most of what is read."""


def plain(value: Any, compact: tuple[type, ...] = ()) -> Any:
    """A value as tables, lists and scalars.

    Args:
        compact: types of which what is None or False is left out.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        # Not `each not in (None, False)`: 0 is equal to False.
        short = isinstance(value, compact)
        return {k: plain(each, compact) for k, each in found if not short or (each is not None and each is not False)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): plain(each, compact) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each, compact) for each in value]
    return value


def read_value(kind: type[T], value: object, at: str, *, lenient: bool = False) -> T:
    """A dataclass out of plain data.

    Args:
        at: what the data is, for the error.
        lenient: keys that the dataclass does not have are left out.

    Raises:
        TypeError: the data does not fit the declared types.
    """
    found: T = read_any(kind, value, at, lenient=lenient)
    return found


def read_any(kind: Any, value: Any, at: str, *, lenient: bool = False) -> Any:
    """A value of any declared type. Raises as `read_value`."""
    if kind is Any or (type(value) is kind and kind in _SCALARS):
        return value
    origin, inner = _parts_of(kind)
    if origin is Union:
        return _read_union(inner, value, at, lenient)
    if origin in (tuple, list):
        _expect(value, list, at)
        return origin(read_any(inner[0], item, f"{at}[{i}]", lenient=lenient) for i, item in enumerate(value))
    if origin is not None:
        _expect(value, dict, at)
        return {k: read_any(inner[1], v, f"{at}.{k}", lenient=lenient) for k, v in value.items()}
    if dataclasses.is_dataclass(kind):
        return _read_dataclass(kind, value, at, lenient)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    _expect(value, kind, at)
    return value


@lru_cache(maxsize=256)
def _parts_of(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Of a type its origin, `Union` for one written with `|` too, and the types inside; (None, ()) for none."""
    origin = get_origin(kind)
    return Union if origin is types.UnionType else origin, get_args(kind)


def _read_union(options: tuple[Any, ...], value: Any, at: str, lenient: bool) -> Any:
    if type(value) in options and (value is None or type(value) in _SCALARS):
        return value
    errors: list[str] = []
    for option in options:
        if option is not type(None):
            try:
                return read_any(option, value, at, lenient=lenient)
            except TypeError as error:
                errors.append(str(error))
    raise TypeError(errors[0] if errors else f"{at} cannot be read")


def _read_dataclass(kind: Any, value: Any, at: str, lenient: bool) -> Any:
    _expect(value, dict, at)
    hints = field_types(kind)
    unknown = set(value) - set(hints)
    if unknown and not lenient:
        raise TypeError(f"{at} has unknown keys: {', '.join(sorted(unknown))}")
    known = {name: item for name, item in value.items() if name in hints}
    lacking = [name for name in _needed(kind) if name not in known]
    if lacking:
        raise TypeError(f"{at} lacks {', '.join(lacking)}")
    return kind(**{name: read_any(hints[name], item, f"{at}.{name}", lenient=lenient) for name, item in known.items()})


@lru_cache(maxsize=64)
def field_types(kind: Any) -> dict[str, Any]:
    """The declared types of a dataclass's fields, resolved."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


@lru_cache(maxsize=64)
def _needed(kind: Any) -> tuple[str, ...]:
    """The fields of a dataclass that have no default."""
    missing = dataclasses.MISSING
    return tuple(f.name for f in dataclasses.fields(kind) if f.default is missing and f.default_factory is missing)


def _expect(value: Any, kind: Any, at: str) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{at} must be {getattr(kind, '__name__', kind)}, not {type(value).__name__}")
