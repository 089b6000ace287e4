"""Fetches logs before a job is deleted; clouds drop them with the pods."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from nemo_runspec.backends.capabilities import KeepsJobs
from nemo_runspec.backends.provider import Provider
from nemo_runspec.errors import UserError
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.remote.log_mirror import Mirror

ProviderOf = Callable[[JobRecord], Provider]

_THREADS = 8
_BETWEEN = 0.5
"""Seconds between two looks at the log of a job that ends: its last lines may be there for no longer."""

_WRITES = ("running", "unknown")
"""States of a job that may have a log."""


def rescue_logs(
    store: JobStore, records: Sequence[JobRecord], provider_of: ProviderOf, *, seconds: float = 15.0
) -> None:
    """Fetches the logs of jobs whose platform would drop them. A log that cannot be fetched in time is left.

    Args:
        seconds: that all of it may take; nothing that hangs keeps a job from being stopped. Nor does Ctrl-C, which
            only ends the fetching.
    """
    wanted = [record for record in records if _goes_with_it(record, provider_of)]
    end = time.monotonic() + seconds
    threads = [
        threading.Thread(target=_fetch, args=(store, wanted[n::_THREADS], provider_of, end), daemon=True)
        for n in range(min(_THREADS, len(wanted)))
    ]
    with suppress(KeyboardInterrupt):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))


def rescue_logs_for(
    store: JobStore,
    records: Sequence[JobRecord],
    provider_of: ProviderOf,
    seconds: float,
    sleep: Callable[[float], None],
) -> None:
    """Sleeps, and meanwhile fetches new lines of such jobs again and again."""
    if not any(_goes_with_it(record, provider_of) for record in records):
        sleep(seconds)
        return
    times = max(1, math.ceil(seconds / _BETWEEN))
    for _ in range(times):
        sleep(seconds / times)
        rescue_logs(store, records, provider_of, seconds=2.0)


def _goes_with_it(record: JobRecord, provider_of: ProviderOf) -> bool:
    """True if a job writes a log that its platform may not keep: on a cloud. Others' logs are files that stay."""
    if record.over or not record.submitted or record.state not in _WRITES:
        return False
    return isinstance(provider_of(record), KeepsJobs)


def _fetch(store: JobStore, records: Sequence[JobRecord], provider_of: ProviderOf, end: float) -> None:
    for record in records:
        with suppress(UserError, OSError):
            mirror, more = Mirror(provider_of(record), record.handle, store.folder(record.name)), True
            while more and time.monotonic() < end:
                moved, more = mirror.fetch()
                more = more and moved > 0
