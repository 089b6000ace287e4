"""Jobs together with what their platforms have just said of them."""

from __future__ import annotations

from nemo_runspec.records import JobRecord
from nemo_runspec.records.status import JobStatus

ObservedJob = tuple[JobRecord, JobStatus]

PolledJob = tuple[JobRecord, JobStatus | None]
"""None where the platform was not asked."""
