"""A Docker profile: the engine is asked what it has."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from nemo_runspec.backends.docker.engine import connect, engine_host, is_there
from nemo_runspec.backends.docker.fields import FIELDS
from nemo_runspec.backends.docker.preflight import has_gpu_runtime
from nemo_runspec.backends.setup import IMAGE, Interview, Setup, SetupChoice, SetupQuestion, ask_image, helps_of
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.text import count

_MOST = 8
"""Images that are offered."""


def _found() -> str:
    return f"an engine answers at {engine_host()}" if is_there() else ""


def _ask(interview: Interview) -> Mapping[str, Any]:
    images: tuple[SetupChoice, ...] = ()
    gpus = 0
    try:
        with closing(connect()) as client:
            info, listed = client.info(), client.images()
    except (UserError, OSError) as error:
        interview.say(f"Docker was not asked: {error.what if isinstance(error, UserError) else error}")
    else:
        gpus = _gpus_here() if has_gpu_runtime(info) else 0
        interview.say(f"Docker {info.get('ServerVersion', '?')} answers; {count(gpus, 'GPU')} for containers")
        tags = sorted({str(tag) for image in listed for tag in image.get("RepoTags") or () if tag != "<none>:<none>"})
        images = tuple(SetupChoice(tag) for tag in tags[:_MOST])
    values: dict[str, Any] = ask_image(interview, images)
    if gpus:
        question = SetupQuestion("gpus_per_node", "GPUs of a job", default=str(gpus), number=True)
        values |= {"gpus_per_node": int(interview.ask(question) or 0), "runtime": "nvidia"}
    return values


def _gpus_here() -> int:
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in text_lines(listed))


SETUP = Setup(_ask, "Docker", helps_of(FIELDS, IMAGE, "gpus_per_node"), found=_found, image=True)
