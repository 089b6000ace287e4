"""The next attempt of a job that failed through no fault of its own: what was sent, but for what must differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.cloud.pod.program import ATTEMPT_VARIABLE
from nemo_runspec.backends.cloud.render import PAYLOAD
from nemo_runspec.backends.provider import Handle
from nemo_runspec.errors import UserError
from nemo_runspec.regular import read_json


def read_sent(folder: Path, platform: str, variables: str, handle: Handle) -> dict[str, Any]:
    """The payload as it was sent the first time, but for the number of the attempt.

    Args:
        folder: the job's on this machine.
        platform: its name, for a person.
        variables: the key of `spec` with the variables.
        handle: of the attempt that it is for.

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
    spec[variables] = [{"name": ATTEMPT_VARIABLE, "value": str(PodHandle(handle).attempt)}, *others]
    return {**payload, "spec": spec}
