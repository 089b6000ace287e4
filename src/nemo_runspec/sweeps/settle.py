"""Sweeps that nobody watches over: how one has ended is written down, once, by whoever is asked to settle.

Reading a sweep changes nothing, as it is with jobs (`records.settle`).
"""

from __future__ import annotations

from collections.abc import Iterable

from nemo_runspec.records.record import JobRecord
from nemo_runspec.sweeps.model import Sweep
from nemo_runspec.sweeps.store import SweepStore


def settled(store: SweepStore, group: str) -> Sweep:
    """A sweep as `SweepStore.get` gives it, by its whole name, and its end on record.

    Raises:
        UserError: it cannot be read, or is gone.
    """
    store.keep_end(group)
    return store.get(group)


def settle_those_of(store: SweepStore, records: Iterable[JobRecord]) -> None:
    """Settles the sweeps of jobs, but those of which one goes on."""
    groups: dict[str, bool] = {}
    for record in records:
        if record.group:
            groups[record.group] = record.over and groups.get(record.group, True)
    for group in (group for group, over in groups.items() if over):
        store.keep_end(group)
