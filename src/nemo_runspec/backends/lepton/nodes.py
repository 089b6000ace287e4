"""Machines of a node group: how they are, and whether jobs come to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.lepton.api import section


def state_of(node: Mapping[str, Any]) -> str:
    """`open` where jobs come to it; else why they do not: `takes no jobs`, or the platform's own words for it.

    A machine that says nothing of itself is taken to be ready: `status` is optional in Lepton's types.
    """
    if section(node, "spec").get("unschedulable"):
        return "takes no jobs"
    said = section(node, "status").get("status")
    words = [str(word) for word in said] if isinstance(said, list) else []
    if not words or any(word.casefold() == "ready" for word in words):
        return "open"
    return ", ".join(words)


def is_open(node: Mapping[str, Any]) -> bool:
    """True if jobs come to it."""
    return state_of(node) == "open"
