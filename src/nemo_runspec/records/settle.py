"""Jobs whose supervisor died without a word: what became of them is written down, once, by whoever is asked to settle.

Reading a record changes nothing: it says what is found of such a job and leaves the record as it is.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from nemo_runspec.errors import UserError
from nemo_runspec.records.record import JobRecord
from nemo_runspec.records.refresh import complete, is_believed, seen_now, tidy
from nemo_runspec.records.store import JobStore


def settled(store: JobStore, name: str) -> JobRecord:
    """A job as it is now, and that on record.

    Around the writing its backend cleans up: its log is complete before anybody is told that it is over.

    Raises:
        UserError: its record cannot be read, or is gone.
    """
    record = store.stored(name)
    if not isinstance(record, JobRecord) or is_believed(record):
        return store.by_name(name)
    record = store.stored(name)  # its supervisor may have written the end and gone after it was read
    if not isinstance(record, JobRecord) or record.over:
        return store.by_name(name)
    folder = store.folder(name)
    seen = seen_now(record, folder)
    if not seen.over:
        return _noted(store, record, seen)
    seen, cleans = complete(record, seen, folder)
    if not seen.over:
        return seen
    now, written = store.keep(record, seen)
    if not (written and cleans):
        return now
    tidied = tidy(seen, folder)
    return tidied if tidied == seen else store.keep(seen, tidied)[0]


def settle_all(store: JobStore) -> None:
    """Settles every job of the store of which that is to be done, and removes what killed processes left."""
    store.clean()
    for entry in store.entries():
        if isinstance(entry.record, JobRecord):
            with suppress(UserError):  # somebody has removed it meanwhile
                settled(store, entry.name)


def _noted(store: JobStore, record: JobRecord, seen: JobRecord) -> JobRecord:
    """Writes down what looks of several processes find out together."""
    if seen.facts != record.facts:
        store.keep(record, replace(record, facts=seen.facts))
    return seen
