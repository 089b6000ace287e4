"""A plan with its holes filled by what the cluster has said of itself."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

from nemo_runspec.backends.slurm.places import HOME
from nemo_runspec.planning.model import Plan


def fill(plan: Plan, home: str) -> Plan:
    """The same plan with the home directory of the login node in all its texts: paths, variables, configuration."""
    filled: Plan = _replaced(plan, HOME, home.rstrip("/"))
    return filled


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, str):
        return value if isinstance(value, Enum) else value.replace(old, new)  # a `Source`'s layer is a text too
    if isinstance(value, dict):
        return {_replaced(key, old, new): _replaced(item, old, new) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_replaced(item, old, new) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: _replaced(getattr(value, name), old, new) for name in names})
    return value
