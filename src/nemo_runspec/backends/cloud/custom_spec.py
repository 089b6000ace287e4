"""A profile's `custom_spec`, merged into the spec that nemotron writes: it wins, and what it replaces is said. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Merged(NamedTuple):
    """A spec with the profile's keys in it.

    Args:
        replaced: dotted names of those that were there with another value.
    """

    spec: dict[str, Any]
    replaced: tuple[str, ...] = ()


def merge(spec: Mapping[str, Any], custom: Mapping[str, Any], lists: Mapping[str, str]) -> Merged:
    """Tables are merged key by key, lists of tables by what tells these apart; all else is replaced.

    Args:
        lists: dotted name of such a list → the key that tells its tables apart. What is in it besides stays.
    """
    merging = _Merge(lists)
    return Merged(merging.tables(spec, custom, ""), tuple(merging.replaced))


class _Merge:
    def __init__(self, lists: Mapping[str, str]) -> None:
        self._lists = lists
        self.replaced: list[str] = []

    def tables(self, ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        both = {
            key: self._value(ours[key], value, f"{prefix}{key}") if key in ours else value
            for key, value in theirs.items()
        }
        return {**ours, **both}

    def _value(self, ours: Any, theirs: Any, name: str) -> Any:
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            return self.tables(ours, theirs, f"{name}.")
        key = self._lists.get(name, "")
        if key and isinstance(ours, list) and _are_tables(theirs, key):
            return self._join(ours, {str(each[key]): each for each in theirs}, key, name)
        self.replaced += [name] if ours != theirs else []
        return theirs

    def _join(self, ours: list[Any], theirs: dict[str, Any], key: str, name: str) -> list[Any]:
        """Each table once, in the place of ours; new ones come last."""
        known = {str(each.get(key)): each for each in ours if isinstance(each, Mapping)}
        self.replaced += [f"{name}.{id}" for id, each in theirs.items() if id in known and known[id] != each]
        kept = [theirs.get(str(each.get(key)), each) if isinstance(each, Mapping) else each for each in ours]
        return [*kept, *(each for id, each in theirs.items() if id not in known)]


def _are_tables(given: Any, key: str) -> bool:
    return isinstance(given, (list, tuple)) and all(isinstance(each, Mapping) and key in each for each in given)
