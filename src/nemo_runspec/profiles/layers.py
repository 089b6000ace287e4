"""Joins layers of profile keys: aliases first, then tables deeply, and two keys that add up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JOINED_KEYS = ("env_vars", "mounts")
"""Between the YAML's `run.env` and the profile these join: `env_vars` key by key, `mounts` both without duplicates."""


def extend(parent: Mapping[str, Any], child: Mapping[str, Any]) -> dict[str, Any]:
    """`extends`: tables merge deeply, lists and scalars are replaced by the child."""
    merged = dict(parent)
    for key, value in child.items():
        below = merged.get(key)
        merged[key] = extend(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def overlay(defaults: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    """`{**yaml run.env, **profile}`, with the `JOINED_KEYS` joined."""
    merged = {**defaults, **profile}
    lower, upper = defaults.get("env_vars"), profile.get("env_vars")
    if isinstance(lower, dict) and isinstance(upper, dict):
        merged["env_vars"] = {**lower, **upper}
    lower, upper = defaults.get("mounts"), profile.get("mounts")
    if isinstance(lower, list) and isinstance(upper, list):
        merged["mounts"] = lower + [mount for mount in upper if mount not in lower]
    return merged


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted path → leaf. Lists and empty tables are leaves."""
    leaves: dict[str, Any] = {}
    for key, value in table.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            leaves.update(flatten(value, f"{path}."))
        else:
            leaves[path] = value
    return leaves
