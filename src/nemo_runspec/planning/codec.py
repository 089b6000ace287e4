"""The plan as JSON: one versioned form for saving, comparing, applying and retrying."""

from __future__ import annotations

import dataclasses
import json
import types
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from nemo_runspec.backends import get_backend
from nemo_runspec.errors import UserError
from nemo_runspec.paths import expanded, write_output
from nemo_runspec.planning.model import PLAN_SCHEMA, Plan
from nemo_runspec.planning.validate import check_plan
from nemo_runspec.regular import MOST
from nemo_runspec.source import Source, display_path


def plan_to_json(plan: Plan) -> str:
    """The plan's JSON text, keys in the order of the declarations. Holds no secret value."""
    return json.dumps(plan_to_dict(plan), indent=2, ensure_ascii=False) + "\n"


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """The plan as plain tables, lists and scalars."""
    plain: dict[str, Any] = _plain(plan)
    return {"schema": plain.pop("schema"), **plain}


def plan_from_json(text: str, shown: str) -> Plan:
    """Reads a saved plan.

    Raises:
        UserError: not JSON, not a plan, or of a schema this version does not know.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"not a saved plan: {error}", where=shown) from None
    if not isinstance(data, dict) or "schema" not in data or "recipe" not in data:
        raise UserError("not a saved plan", where=shown, remedy="save one with --dry-run --out plan.json")
    if data["schema"] != PLAN_SCHEMA:
        raise UserError(
            f"the plan has schema {data['schema']!r}; this nemotron reads schema {PLAN_SCHEMA}",
            where=shown,
            remedy="make the plan again with this version",
        )
    try:
        plan: Plan = _read(Plan, {**data, "target": None}, "plan")
        module, _, name = get_backend(plan.executor).target_type.partition(":")
        target = _read(getattr(import_module(module), name), data.get("target"), "target")
    except (TypeError, KeyError, ValueError) as error:
        raise UserError(f"the saved plan is damaged: {error}", where=shown) from None
    except UserError as error:
        raise UserError(f"the saved plan is damaged: {error.what}", where=shown) from None
    return dataclasses.replace(plan, target=target)


def save_plan(plan: Plan, path: str | Path) -> Path:
    """Writes a plan's JSON; the file. `path`: `~` is the home directory.

    Raises:
        UserError: it cannot be written.
    """
    target = expanded(str(path))
    try:
        write_output(target, plan_to_json(plan))
    except OSError as error:
        raise UserError(f"cannot save the plan: {error.strerror}", where=str(target)) from None
    return target


def load_plan(path: Path) -> Plan:
    """Reads a plan file, which anybody may have edited.

    Raises:
        UserError: as `plan_from_json` and `validate.check_plan`, and where the file cannot be read.
    """
    shown = display_path(path)
    try:
        with path.open("rb") as file:  # a pipe too: `nemotron apply <(…)`
            content = file.read(MOST + 1)
        if len(content) > MOST:
            raise UserError(
                f"{shown} is larger than {MOST >> 20} MiB", where=shown, remedy="it is no plan of nemotron's"
            )
        plan = plan_from_json(content.decode("utf-8"), shown)
        check_plan(plan, shown)
        return plan
    except OSError as error:
        raise UserError(f"cannot read {shown}: {error.strerror}", where=shown) from None
    except UnicodeDecodeError:
        raise UserError(f"{shown} is not a text file", where=shown) from None


def _plain(value: Any) -> Any:
    if isinstance(value, Source):
        # Not `v not in (None, False)`: 0 is equal to False.
        return {k: _plain(v) for k, v in _fields(value) if v is not None and v is not False}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {k: _plain(v) for k, v in _fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def _fields(value: Any) -> list[tuple[str, Any]]:
    return [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]


def _read(kind: Any, value: Any, at: str) -> Any:
    """A value of a declared type out of plain JSON data. Raises `TypeError` where it does not fit."""
    if kind is Any:
        return value
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _read_union(kind, value, at)
    if origin is tuple:
        _expect(value, list, at)
        return tuple(_read(get_args(kind)[0], item, f"{at}[{i}]") for i, item in enumerate(value))
    if origin is list:
        _expect(value, list, at)
        return [_read(get_args(kind)[0], item, f"{at}[{i}]") for i, item in enumerate(value)]
    if origin is not None:
        _expect(value, dict, at)
        return {k: _read(get_args(kind)[1], v, f"{at}.{k}") for k, v in value.items()}
    if dataclasses.is_dataclass(kind):
        return _read_dataclass(kind, value, at)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    _expect(value, kind, at)
    return value


def _read_union(kind: Any, value: Any, at: str) -> Any:
    if value is None and type(None) in get_args(kind):
        return None
    errors: list[str] = []
    for option in get_args(kind):
        if option is not type(None):
            try:
                return _read(option, value, at)
            except TypeError as error:
                errors.append(str(error))
    raise TypeError(errors[0] if errors else f"{at} cannot be read")


def _read_dataclass(kind: Any, value: Any, at: str) -> Any:
    _expect(value, dict, at)
    hints = get_type_hints(kind)
    known = {f.name: f for f in dataclasses.fields(kind)}
    unknown = set(value) - set(known)
    if unknown:
        raise TypeError(f"{at} has unknown keys: {', '.join(sorted(unknown))}")
    return kind(**{name: _read(hints[name], item, f"{at}.{name}") for name, item in value.items()})


def _expect(value: Any, kind: Any, at: str) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{at} must be {getattr(kind, '__name__', kind)}, not {type(value).__name__}")
