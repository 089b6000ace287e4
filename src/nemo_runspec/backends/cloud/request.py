"""The request that makes a job on a platform of pods. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from nemo_runspec.json_text import json_text
from nemo_runspec.placeholders import Placeholder

UPLOAD = Placeholder("UPLOAD", "the job's files, or where its pods fetch them, packed when it is submitted")


class CreateRequest(NamedTuple):
    """The request that makes a job: `POST <url><path>`. `url`: of the platform; `body`: JSON with placeholders."""

    url: str
    path: str
    body: dict[str, Any]


def as_text(payload: Mapping[str, Any]) -> str:
    """A payload as it is shown and kept; what is sent is this, read again."""
    return json_text(payload) + "\n"
