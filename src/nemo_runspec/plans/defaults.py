"""What is meant where nobody says it: defaults that more than a key's declaration has to know.

A profile key takes its default from here, and so do a plan that was saved without it and the rooms below the profiles.
Every other default stands in its key's own declaration alone.
"""

from __future__ import annotations

NODES = 1

WORLD_SIZE = "processes"
"""What `WORLD_SIZE` counts."""

RAY_START_TIMEOUT = "10m"

MAX_PARALLEL = 1
"""Runs of a sweep that go on at the same time."""

DIRTY = "warn"
DIRTY_CHOICES = (DIRTY, "refuse", "include")
"""What becomes of changes that are not committed."""
