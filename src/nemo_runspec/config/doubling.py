"""Configurations whose values name others again and again: what they come to is counted before anything is resolved.

Thirty lines of `a: ${b}${b}`, `b: ${c}${c}`, … stand for a billion values. OmegaConf would begin to make them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nemo_runspec.errors import UserError

_REFERENCE = re.compile(
    r"(?<!\\)\$\{(?:oc\.(?:select|deprecated|dict\.keys|dict\.values):)?\s*(?P<dots>\.*)(?P<key>[^${}:,]+)"
)
"""`${a.b}`, `${..b}`, `${a[0]}`, `${oc.select:a.b,default}`; of what has other references in it, those."""

_DEPTH = 200
"""Values that lead to each other in a row. OmegaConf gives up after some sixty."""


def references_of(tree: Any, most: int) -> int:
    """How many interpolations have to be resolved for the whole of a tree, those of what they lead to among them.

    What refers to itself is counted once: OmegaConf refuses it.

    Args:
        tree: unresolved, of plain tables, lists and scalars.
        most: where the count may end.
    """
    return _Count(tree, most).below((), tree, 0)


def refuse_doubling(tree: Any, most: int, place: Callable[[str], str | None]) -> None:
    """Raises `UserError` where more than `most` interpolations would have to be resolved.

    Args:
        place: where the value of a path was written.
    """
    count = _Count(tree, most)
    if count.below((), tree, 0) > most:
        raise too_many(most, place(count.largest()))


def too_many(most: int, where: str | None = None) -> UserError:
    """What is said of such a configuration."""
    return UserError(
        where=where,
        what=f"its ${{…}} refer to each other more than {most:,} times, or make too much text",
        remedy="a value that names another twice doubles it, and so on with every step: name it once",
    )


class _Count:
    """The count of each value is made once, and kept by its path."""

    def __init__(self, tree: Any, most: int) -> None:
        self._tree = tree
        self._most = most
        self._known: dict[tuple[str, ...], int] = {}

    def below(self, path: tuple[str, ...], value: Any, depth: int) -> int:
        """Of a value, and of all that is in it."""
        if isinstance(value, str):
            return sum(1 + self._at(led, depth + 1) for led in _led_to(path, value)) if "${" in value else 0
        count = 0
        for key, part in _parts(value):
            count += self.below((*path, key), part, depth)
            if count > self._most:
                break
        return count

    def largest(self) -> str:
        """The path of the value that was found to stand for most."""
        return ".".join(max(self._known.items(), key=lambda item: item[1], default=((), 0))[0])

    def _at(self, path: tuple[str, ...], depth: int) -> int:
        if path not in self._known:
            self._known[path] = 0
            if depth < _DEPTH:
                self._known[path] = self.below(path, _selected(self._tree, path), depth)
        return self._known[path]


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((str(number), part) for number, part in enumerate(value))


def _led_to(path: tuple[str, ...], text: str) -> Iterator[tuple[str, ...]]:
    """The paths that the references in a value's text lead to."""
    for found in _REFERENCE.finditer(text):
        dots = len(found["dots"])
        above = path[: len(path) - dots] if dots else ()
        words = re.split(r"[.\[\]]+", found["key"].strip())
        yield (*above, *filter(None, words))


def _selected(tree: Any, path: tuple[str, ...]) -> Any:
    for word in path:
        tree = dict(_parts(tree)).get(word)
    return tree
