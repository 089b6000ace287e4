"""A plan under another job name, so that it can be run once more."""

from __future__ import annotations

import dataclasses
from typing import Any

from nemo_runspec.planning.model import Plan


def rename(plan: Plan, name: str) -> Plan:
    """The same plan with a new name, in its paths and its configuration too."""

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(plan.name, name)
        if isinstance(value, dict):
            return {key: renamed(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(renamed(item) for item in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            changed = {f.name: renamed(getattr(value, f.name)) for f in dataclasses.fields(value)}
            return dataclasses.replace(value, **changed)
        return value

    changed: Plan = renamed(plan)
    return changed
