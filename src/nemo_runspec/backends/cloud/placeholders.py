"""Values of a payload that only the platform knows: named when it is shown, filled when it is sent. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


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


class CreateRequest(NamedTuple):
    """The request that makes a job: `POST <url><path>`. `url`: of the platform; `body`: JSON with placeholders."""

    url: str
    path: str
    body: dict[str, Any]


CARGO = Placeholder("CARGO", "the job's files, or where its pods fetch them, packed when it is submitted")


def fill(tree: Any, values: Mapping[str, Any]) -> Any:
    """The payload with those placeholders filled whose values are given; a list that fills an item joins its list."""
    if isinstance(tree, Placeholder):
        return values.get(tree, tree)
    if isinstance(tree, dict):
        return {key: fill(value, values) for key, value in tree.items()}
    if isinstance(tree, list):
        return [item for each in tree for item in _items(each, values)]
    return tree


def placeholders(tree: Any) -> Iterator[Placeholder]:
    """Those that are left, in their order."""
    if isinstance(tree, Placeholder):
        yield tree
    for value in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else ():
        yield from placeholders(value)


def explained(tree: Any) -> tuple[str, ...]:
    """A line for each placeholder that is left: its name, and what it is."""
    return tuple(f"{each}: {each.meaning}" for each in dict.fromkeys(placeholders(tree)))


def as_text(payload: Mapping[str, Any]) -> str:
    """A payload as it is shown and kept; what is sent is this, read again."""
    return json.dumps(payload, indent=2, ensure_ascii=False) + "\n"


def _items(item: Any, values: Mapping[str, Any]) -> list[Any]:
    filled = fill(item, values)
    return list(filled) if isinstance(item, Placeholder) and isinstance(filled, (list, tuple)) else [filled]
