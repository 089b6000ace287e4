"""What is left of a job that is over: its metrics, its outputs, and why it failed."""

from __future__ import annotations

from contextlib import suppress

from nemo_runspec.backends.cloud.collect import results_of
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.diagnose import diagnose
from nemo_runspec.backends.dgxcloud.facts import detail_of
from nemo_runspec.backends.dgxcloud.logs import last_words
from nemo_runspec.diagnosis.model import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.remote.provider import Handle, JobStatus, Results


def collect(api: RunaiApi, handle: Handle, seen: JobStatus) -> Results:
    """What its nodes' last lines say, and the verdict on a failure. run:ai keeps no secret for a job alone."""
    log = _log_end(api, handle, seen)
    good = seen.state in ("succeeded", "cancelled")
    return results_of(log, None if good else diagnose(api, handle, seen, log))


def diagnosis_of(api: RunaiApi, handle: Handle, seen: JobStatus) -> Diagnosis | None:
    """Why a job failed, or does not start; None where nothing is wrong."""
    return diagnose(api, handle, seen, _log_end(api, handle, seen))


def _log_end(api: RunaiApi, handle: Handle, seen: JobStatus) -> bytes:
    """The nodes' last lines, as they were just seen; else asked for, as far as they can be read now."""
    known = detail_of(seen).log
    if known is None and handle.get("id"):
        with suppress(UserError):
            return last_words(api, handle)
    return known or b""
