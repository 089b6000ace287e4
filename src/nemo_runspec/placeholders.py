"""Values that only a platform knows: named in what is shown, filled in what is sent. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any


class Placeholder(str):
    """The name of a value that is filled in later. In a list it stands for any number of items, none included.

    Args:
        name: as it is shown in the value's place. No text of a user's is a placeholder, whatever it says.
        meaning: what it is and when it is filled, for a person.
    """

    __slots__ = ("meaning",)

    def __new__(cls, name: str, meaning: str = "asked for when it is submitted") -> Placeholder:
        """As `str`, with a meaning beside it."""
        made = super().__new__(cls, name)
        made.meaning = meaning
        return made

    meaning: str


class TextPlaceholder(Placeholder):
    """One that is a part of texts, such as of paths, also of keys. No other text may hold its name."""

    __slots__ = ()


def fill(tree: Any, values: Mapping[str, Any]) -> Any:
    """The value with those placeholders filled whose values are given; a list that fills an item joins its list.

    Args:
        tree: a payload, or a dataclass such as a plan. Members of an `Enum` stay as they are.
    """
    return _fill(tree, values, {name: value for name, value in values.items() if isinstance(name, TextPlaceholder)})


def placeholders(tree: Any) -> Iterator[Placeholder]:
    """Those that are left, in their order."""
    if isinstance(tree, Placeholder):
        yield tree
    for value in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else ():
        yield from placeholders(value)


def explained(tree: Any) -> tuple[str, ...]:
    """A line for each placeholder that is left: its name, and what it is."""
    return tuple(f"{each}: {each.meaning}" for each in dict.fromkeys(placeholders(tree)))


def _fill(tree: Any, values: Mapping[str, Any], inside: Mapping[TextPlaceholder, Any]) -> Any:
    if isinstance(tree, str):
        return values.get(tree, tree) if isinstance(tree, Placeholder) else _fill_text(tree, inside)
    if isinstance(tree, dict):
        return {_fill(key, values, inside): _fill(value, values, inside) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(item for each in tree for item in _items(each, values, inside))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        fields = dataclasses.fields(tree)
        return dataclasses.replace(tree, **{f.name: _fill(getattr(tree, f.name), values, inside) for f in fields})
    return tree


def _fill_text(text: str, inside: Mapping[TextPlaceholder, Any]) -> str:
    if not isinstance(text, Enum):
        for name, value in inside.items():
            text = text.replace(name, value)
    return text


def _items(item: Any, values: Mapping[str, Any], inside: Mapping[TextPlaceholder, Any]) -> list[Any]:
    filled = _fill(item, values, inside)
    return list(filled) if isinstance(item, Placeholder) and isinstance(filled, (list, tuple)) else [filled]
