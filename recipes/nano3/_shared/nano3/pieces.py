"""What one task reads of a file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """The bytes of a file from `start` to `end`, which are whole lines, or those row groups or batches of a table.

    What is not cut has no end.

    Args:
        size: how many bytes there are to read, for planning.
    """

    path: str
    size: int
    start: int = 0
    end: int | None = None
