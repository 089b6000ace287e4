"""Connections to platforms that are used again, and lists that come in pages."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

_OF_THREAD = threading.local()
"""Connections of this thread: one is asked by one thread at a time."""


def kept_for_thread(key: tuple[Any, ...], make: Callable[[], T]) -> T:
    """The connection of this thread that has this key, made where there is none.

    Args:
        key: all that it depends on, so that two clouds have none in common.
    """
    known = kept()
    if key not in known:
        known[key] = make()
    found: T = known[key]
    return found


def kept() -> dict[tuple[Any, ...], Any]:
    """This thread's connections by their keys; cleared, they are made anew."""
    known: dict[tuple[Any, ...], Any] = _OF_THREAD.__dict__.setdefault("known", {})
    return known


class Page(NamedTuple):
    """A part of a list.

    Args:
        next: where the next one begins, None for the last.
        total: rows of the whole list, None where nothing says it.
    """

    rows: Sequence[dict[str, Any]]
    next: int | None
    total: int | None = None


def every_row(
    ask: Callable[[int], Page], first: int, identity: Callable[[dict[str, Any]], str]
) -> Iterator[dict[str, Any]]:
    """Every row of a list once, pages as they are needed. One that brings nothing new is the last."""
    at, known = first, set[str]()
    while True:
        page = ask(at)
        new = {name: row for row in page.rows if (name := identity(row)) not in known}
        yield from new.values()
        known |= new.keys()
        whole = page.total is not None and len(known) >= page.total
        if not new or whole or page.next is None or page.next <= at:
            return
        at = page.next
