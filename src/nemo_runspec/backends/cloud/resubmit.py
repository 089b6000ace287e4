"""The next attempt of a job that failed through no fault of its own: what was sent, but for what must differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_runspec.backends.cloud.pod.program import ATTEMPT_VARIABLE
from nemo_runspec.backends.cloud.render import PAYLOAD
from nemo_runspec.backends.provider import Handle
from nemo_runspec.errors import UserError
from nemo_runspec.regular import read_json

_OF_AN_ATTEMPT = frozenset({"id", "since", "doubt"})
"""Keys of a handle that say something of one attempt alone."""


def next_handle(handle: Handle, **more: Any) -> dict[str, Any]:
    """The handle of the attempt after this one, not submitted yet. `more`: what the platform's handle has besides."""
    kept = {key: value for key, value in handle.items() if key not in _OF_AN_ATTEMPT}
    return {**kept, "attempt": int(handle.get("attempt") or 0) + 1, **more}


def read_sent(folder: Path, platform: str, variables: str, handle: Handle) -> dict[str, Any]:
    """The payload as it was sent the first time, but for the number of the attempt.

    Args:
        folder: the job's on this machine. `platform`: its name, for a person.
        variables: the key of `spec` with the variables. `handle`: of the attempt that it is for.

    Raises:
        UserError: it is not there, or is no such thing.
    """
    file = folder / PAYLOAD
    try:
        payload = read_json(file)
        spec = dict(payload["spec"])
    except (OSError, ValueError, KeyError, TypeError):
        what = f"what was sent to {platform} is not kept any more, or damaged"
        raise UserError(what, where=str(file), remedy="nemotron jobs retry") from None
    others = [dict(each) for each in spec.get(variables) or () if each.get("name") != ATTEMPT_VARIABLE]
    spec[variables] = [{"name": ATTEMPT_VARIABLE, "value": str(handle["attempt"])}, *others]
    return {**payload, "spec": spec}
