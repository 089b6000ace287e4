"""Why a job failed, by what lies in its folder on this machine: all there is to know of local and Docker jobs."""

from __future__ import annotations

from pathlib import Path

from nemo_runspec.diagnosis.engine import diagnose
from nemo_runspec.diagnosis.known_errors import known_of_folder
from nemo_runspec.diagnosis.model import Case, Platform
from nemo_runspec.diagnosis.symptoms import tail_of
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.records.record import JobRecord
from nemo_runspec.script.markers import read_markers

PLATFORM = Platform("this machine", {}, {"exit code": ""})


def diagnose_folder(record: JobRecord, folder: Path, log: Path) -> Diagnosis | None:
    """The verdict on a job that failed; None for another one, and where nothing is known but its cause."""
    if record.state != "failed":
        return None
    case = Case(
        record.state,
        PLATFORM,
        reason=record.reason or record.cause,
        markers=read_markers(folder / "status"),
        tail=tail_of(log),
        exit_code=record.exit_code,
        signal=record.signal,
        known=known_of_folder(folder),
    )
    found = diagnose(case)
    return found if found is not None and (found.kind or case.last_lines) else None
