"""A plan under another job name, so that it can be run once more."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

from nemo_runspec.plans.model import Plan


def rename(plan: Plan, name: str) -> Plan:
    """The same plan with a new name, in its paths and its configuration too."""
    renamed: Plan = replaced(plan, plan.name, name)
    return renamed


def replaced(value: Any, old: str, new: str) -> Any:
    """The same value with `new` for `old` in all its texts; words of an `Enum`, such as a source's layer, stay."""
    if isinstance(value, str):
        return value if isinstance(value, Enum) else value.replace(old, new)
    if isinstance(value, dict):
        return {replaced(key, old, new): replaced(item, old, new) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(item, old, new) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: replaced(getattr(value, f.name), old, new) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **changed)
    return value
