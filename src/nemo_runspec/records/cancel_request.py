"""The wish of another process that a job be ended: a small file in the job's folder, which its supervisor looks for."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.regular import read_json

GRACE = 10.0
"""Seconds between asking a job to end and ending it, where nobody says otherwise."""

MARGIN = 15.0
"""Seconds beyond the grace that whoever runs a job or a sweep has to end it and write that down."""

_FILE = "cancel.json"


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """What somebody wants.

    Attributes:
        grace: seconds between TERM and KILL.
        by: who asked, for a person.
        announced: one TERM follows, to the process that runs the job: it is part of this wish, not a second one.
    """

    grace: float
    by: str
    announced: bool = False


def write_request(folder: Path, request: CancelRequest) -> None:
    """Leaves the wish in a job's folder. Raises `OSError` where it cannot be written."""
    paths.write_private(folder / _FILE, json.dumps(asdict(request)) + "\n")


def read_request(folder: Path) -> CancelRequest | None:
    """The wish, if somebody has left one. A file system that fails for a moment wishes nothing."""
    try:
        data = read_json(folder / _FILE)
        return CancelRequest(_finite(data["grace"]), str(data["by"]), bool(data.get("announced", True)))
    except OSError:
        return None
    except (ValueError, KeyError, TypeError, OverflowError):  # it is there: somebody wants the end
        return CancelRequest(GRACE, "another process", announced=True)


def forget_request(folder: Path) -> None:
    """Takes a wish away that was meant for what has ended. Raises `OSError` where that cannot be done."""
    (folder / _FILE).unlink(missing_ok=True)


def _finite(seconds: object) -> float:
    number = float(str(seconds))
    if not math.isfinite(number):
        raise ValueError
    return number
