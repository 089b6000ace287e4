"""Answers of a lab as a platform might give them on a bad day: a field is missing, null, of another type, huge, NaN."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**40, 0.5, -0.0, 1e300, float("nan"), float("inf"), "", "0",
    "x", "-", "\x00\x1b[31m", "\u202e", "\ud800", "9" * 5000, "é" * 300, [], [None], [[]], ["x"], [1, "2"], [{}], {},
    {"": None}, {"id": None}, {"id": {}, "name": []}, {"metadata": {"id": 7, "name": None}},
    "2026-01-02T03:04:05Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "../..", "a/b?c#d",
)  # fmt: skip
"""What a field may be instead."""


def mutated(answer: Any, random: Random) -> Any:
    """The answer with one to four of its values, or all of it, made odd. The answer itself stays as it is."""
    found = {"": answer}
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        places = list(_places(found))
        if places:
            _change(*random.choice(places), random)
    return found.get("")


def _change(holder: Any, key: Any, random: Random) -> None:
    way = random.randrange(6)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder[key], list) and holder[key]:
        holder[key] = [holder[key][0]] * random.choice((2, 3, 1000))
    elif way == 2 and isinstance(holder[key], (dict, list)):
        holder[key] = holder[key].__class__()
    elif way == 3 and isinstance(holder, dict):
        holder[random.choice(list(holder))] = holder[key]
    else:
        holder[key] = random.choice(VALUES)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where all values stand: what holds each, and its key or number."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(pairs):
        yield value, key
        yield from _places(item)
