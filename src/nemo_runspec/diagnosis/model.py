"""The verdict on a job that failed, or that does not start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a job failed, for a person.

    Args:
        kind: a word, such as `out of memory`, `time limit`, `user code`; '' where nothing is known.
        what: one line. `evidence`: the line of a log, or of the platform, that shows it.
        remedy: what to do.
        platform: what the platform itself makes of it, shown beside: `name` of the platform, and as far as it says so
            `err_class` (such as ERR_PROGRAM), `suggestion` (what to do), `log_streams` (lines of logs, in any shape).
    """

    kind: str
    what: str
    evidence: str = ""
    remedy: str = ""
    platform: Mapping[str, Any] = field(default_factory=dict)
