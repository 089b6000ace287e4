"""What profile keys are about: the titles of their list, in its order. A declaration names one of them (`Field.topic`).

A backend may have a title of its own; its keys stand below those of all others.
"""

from __future__ import annotations

from collections.abc import Iterable

PLACE = "Where it runs"
SIZE = "How much, and how long"
CONTAINER = "Container"
FILES = "Files"
COMMAND = "Command and environment"
CODE = "Your own code"
TROUBLE = "When it waits, fails or hangs"
SWEEPS = "Sweeps"
BUILDS = "Image builds"
OTHER = "Other"

_ORDER = (PLACE, SIZE, CONTAINER, FILES, COMMAND, CODE, TROUBLE, SWEEPS, BUILDS)


def in_order(topics: Iterable[str]) -> list[str]:
    """Topics as they are shown, each once: those above, those of other packages by name, and what is about nothing."""
    found = set(topics)
    others = sorted(found.difference(_ORDER, (OTHER,)))
    return [topic for topic in (*_ORDER, *others, OTHER) if topic in found]
