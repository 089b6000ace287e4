"""A job made on Lepton exactly once, however often a connection breaks or a process dies meanwhile.

A job's name is unique and carries no id: Lepton adds four characters of its own to it. So the job is looked for by its
name, and by the label that says which of our attempts it is, before it is made and after every doubt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.cloud.submit_once import submit_once as make_once
from nemo_runspec.backends.lepton.api import LeptonApi, id_of, job_id, name_of, section
from nemo_runspec.backends.lepton.payload import ATTEMPT_LABEL, JOB_LABEL
from nemo_runspec.backends.lepton.states import seconds_of
from nemo_runspec.backends.provider import Handle
from nemo_runspec.console import Say
from nemo_runspec.polling import tried
from nemo_runspec.transport.web import Malformed

_DOUBTS = (0.5, 1.5, 3.0)
"""Seconds before each look for a job that may have been made."""

_TRIES = 3


def submit_once(api: LeptonApi, handle: Handle, payload: Mapping[str, Any], say: Say, *, sent: bool = False) -> Handle:
    """Makes the job, unless it is there; the handle with its id.

    A request that broke may be served late, when the next one has made the job already. So where there was more than
    one it is looked again, and the handle's doubt (`PodHandle`) lets every later look do the same.

    Args:
        sent: whether a request may have been made before, by a process that was cut off: a list that lacks its job may
            be a stray one, so it is looked for some seconds before another one is sent.

    Raises:
        Refused: Lepton does not take it. Unreachable: it is not there as far as can be seen, or that is not known.
    """
    search = (0.0, *_DOUBTS)
    job, doubt = make_once(
        lambda: api.create(payload),
        lambda: _surely(api, handle),
        before=search if sent else (0.0,),
        after=(_DOUBTS,) * _TRIES,
        say=lambda trouble: say(f"{handle['name']}: {trouble.what}; looking whether it was submitted"),
        sent=sent,
    )
    since = seconds_of(section(job, "metadata").get("created_at")) or api.web.time()
    return PodHandle(handle).made(job_id(job), doubt=doubt, since=since)


def find(api: LeptonApi, handle: Handle) -> dict[str, Any] | None:
    """The job of this name and attempt: the one that the handle has the id of, else the oldest. One request.

    Where doubtful requests have made several, the others are deleted as far as their label says that they are ours.
    """
    named = (job for job in api.jobs(name=str(handle["name"])) if job_id(job) and _is(job, handle))
    found = sorted(named, key=_age)
    known = handle.get("id")
    job = next((job for job in found if known in (None, "", job_id(job))), None)
    for twin in found:
        if twin is not job and section(twin, "metadata", "labels").get(JOB_LABEL) == handle["name"]:
            api.delete(job_id(twin))
    return job


def _surely(api: LeptonApi, handle: Handle) -> dict[str, Any] | None:
    """As `find`; a list that is none is asked for again: nothing is made while it is not known what there is."""
    return tried(lambda: find(api, handle), _DOUBTS, lambda error: isinstance(error, Malformed))


def _is(job: Mapping[str, Any], handle: Handle) -> bool:
    """True if it is the handle's: its name, or the name Lepton made of it, and its attempt."""
    name = str(handle["name"])
    words = {name_of(job), id_of(job)}
    if not any(re.fullmatch(rf"{re.escape(name)}(-[a-z0-9]{{4}})?", word) for word in words):
        return False
    if id_of(job) in (handle.get("earlier") or ()):
        return False
    labels = section(job, "metadata", "labels")
    attempt = str(PodHandle(handle).attempt)
    return labels.get(JOB_LABEL, name) == name and str(labels.get(ATTEMPT_LABEL, attempt)) == attempt


def _age(job: Mapping[str, Any]) -> tuple[float, str]:
    return seconds_of(section(job, "metadata").get("created_at")) or 0.0, id_of(job)
