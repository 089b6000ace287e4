"""What is left of a job that is over: its metrics, its outputs, and why it failed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.exit_status import WORDS
from nemo_runspec.backends.dgxcloud.logs import last_words
from nemo_runspec.diagnosis.model import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.remote.provider import Handle, JobStatus, Results


def rest_of(api: RunaiApi, handle: Handle, seen: JobStatus) -> Results:
    """What its nodes' last words say, and the verdict on a failure. run:ai keeps no secret for a job alone."""
    from nemo_runspec.script.pod_marker import inputs_of, metrics_history, outputs_of

    words = _words(api, handle, seen)
    found = Results(metrics_history(words), outputs_of(words), inputs=inputs_of(words))
    if seen.state in ("succeeded", "cancelled"):
        return found
    return replace(found, diagnosis=_verdict(api, handle, seen, words))


def diagnosis_of(api: RunaiApi, handle: Handle, seen: JobStatus) -> Diagnosis | None:
    """Why a job failed, or does not start; None where nothing is wrong."""
    return _verdict(api, handle, seen, _words(api, handle, seen))


def _verdict(api: RunaiApi, handle: Handle, seen: JobStatus, words: bytes) -> Diagnosis | None:
    from nemo_runspec.backends.dgxcloud.diagnose import diagnose

    return diagnose(api, handle, seen, words)


def _words(api: RunaiApi, handle: Handle, seen: JobStatus) -> bytes:
    """The nodes' last words, as they were just seen; else asked for, as far as they can be read now."""
    known = seen.detail.get(WORDS) if isinstance(seen.detail, dict) else None
    if isinstance(known, bytes):
        return known
    if handle.get("id"):
        with suppress(UserError):
            return last_words(api, handle)
    return b""
