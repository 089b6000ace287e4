"""Why a job has failed, or does not start: what its record says, else its platform now, else its own folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.capabilities import Diagnoses
from nemo_runspec.backends.provider import ref_of
from nemo_runspec.diagnosis.local_jobs import diagnose_folder
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.follow import log_of
from nemo_runspec.records.status import JobStatus


def explain(store: JobStore, record: JobRecord, status: JobStatus | None) -> Mapping[str, Any]:
    """The fields of a `Diagnosis`, empty where nothing is known or nothing is wrong.

    Args:
        status: what the platform has just said of the job, None where it was not asked.

    Raises:
        UserError: the platform cannot be asked.
    """
    return dict(record.diagnosis) or _of_platform(record, status) or _of_folder(store, record)


def _of_platform(record: JobRecord, status: JobStatus | None) -> Mapping[str, Any]:
    if not record.handle or record.state == "succeeded":
        return {}
    provider = get_backend(record.executor).load_provider()
    if not isinstance(provider, Diagnoses):
        return {}
    found = provider.diagnose(record.handle, status or provider.status([ref_of(record)])[0])
    return asdict(found) if found else {}


def _of_folder(store: JobStore, record: JobRecord) -> Mapping[str, Any]:
    """What markers and log of a job that failed say, where no platform says more."""
    folder = store.folder(record.name)
    found = diagnose_folder(record, folder, log_of(folder))
    return asdict(found) if found else {}
