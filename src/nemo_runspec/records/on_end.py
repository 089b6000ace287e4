"""`on_end` of a profile: a command that is run on this side once a job's end has been written down.

The end of a job is written once, under its lock, and whoever has written it runs the command: the process that watches
over the job, one that stays with it, `jobs status`. What becomes of the command changes nothing about the job.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

from nemo_runspec.console import note
from nemo_runspec.records.record import JobRecord

SECONDS = 30.0
"""How long it may take; whoever learns of the end waits that long."""

_LOG, _CODE = "on_end.log", "on_end.code"


def run_on_end(record: JobRecord, folder: Path) -> None:
    """Runs the command of a job that has just ended; says where it has failed. Of one that goes on, nothing.

    Args:
        folder: the job's. What the command writes is kept there.
    """
    if not record.on_end or not record.ended:
        return
    why = _run(record, folder)
    with suppress(OSError):
        (folder / _CODE).write_text(why)
    if why:
        note(f"{record.name}: on_end {why}: {folder / _LOG}")


def told_of(folder: Path) -> str:
    """What became of the command, for a person; '' where it was not run, or is still running."""
    try:
        why = (folder / _CODE).read_text(errors="replace")
    except OSError:
        return ""
    return f"{why}: {folder / _LOG}" if why else "done"


def _run(record: JobRecord, folder: Path) -> str:
    """Why it failed, '' where it did not."""
    try:
        with (folder / _LOG).open("wb") as log:
            done = subprocess.run(
                ["bash", "-c", record.on_end],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=record.cwd if Path(record.cwd).is_dir() else folder,
                env={**os.environ, **_variables(record, folder)},
                timeout=SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return f"took longer than {SECONDS:g} seconds and was ended"
    except OSError as error:
        return f"could not be run ({error.strerror or error})"
    return f"ended with exit code {done.returncode}" if done.returncode else ""


def _variables(record: JobRecord, folder: Path) -> dict[str, str]:
    known = {
        "NEMOTRON_JOB": record.name,
        "NEMOTRON_STATE": record.state,
        "NEMOTRON_EXIT_CODE": "" if record.exit_code is None else str(record.exit_code),
        "NEMOTRON_CAUSE": record.why,
        "NEMOTRON_RECIPE": record.recipe,
        "NEMOTRON_PROFILE": record.profile or "",
        "NEMOTRON_SWEEP": record.group or "",
        "NEMOTRON_TAGS": " ".join(record.tags),
        "NEMOTRON_NOTE": record.note,
        "NEMOTRON_SECONDS": "" if record.elapsed is None else f"{record.elapsed:.0f}",
        "NEMOTRON_JOB_FOLDER": str(folder),
        "NEMOTRON_LOG": str(folder / "logs" / "job.log"),
    }
    return {name: value.replace("\0", "") for name, value in known.items()}
