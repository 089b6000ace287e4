"""A plan under another job name, so that it can be run once more."""

from __future__ import annotations

from nemo_runspec.placeholders import TextPlaceholder, fill
from nemo_runspec.plans.model import Plan


def rename(plan: Plan, name: str) -> Plan:
    """The same plan with a new name, in its paths and its configuration too."""
    renamed: Plan = fill(plan, {TextPlaceholder(plan.name): name})
    return renamed
