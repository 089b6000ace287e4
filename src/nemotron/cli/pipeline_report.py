"""A pipeline's run as it is: its steps, the job of each, and how to go on where one has failed."""

from __future__ import annotations

import csv
import io
import shlex
from pathlib import Path
from typing import Any

from nemo_runspec.lines import text_lines
from nemo_runspec.regular import read_regular
from nemo_runspec.source import display_path
from nemo_runspec.sweeps.model import Member, Sweep
from nemo_runspec.sweeps.status import Status
from nemo_runspec.text import clean, one_line
from nemotron.cli.job_formatting import COLOURS, took
from nemotron.cli.tables import Styled
from nemotron.cli.text import paint, table

REPORT = "report.txt"
_FIGURES = (".png", ".svg", ".pdf")
_MOST_FIGURES = 10
_LONGEST = 20_000
_REUSED = "made before"


def stage_lines(sweep: Sweep) -> list[str]:
    """The steps, a line each, and what there is to say of those that failed."""
    head = [Styled(text, "bold") for text in ("#", "STEP", "STATE", "TIME", "JOB")]
    rows = [_row(member) for member in sweep.members]
    return [*table([head, *rows], indent=""), *_failures(sweep), *_report(sweep)]


def as_json(sweep: Sweep, status: Status) -> dict[str, Any]:
    """As `-o json` shows it."""
    return {
        "kind": "pipeline",
        "group": sweep.group,
        "pipeline": sweep.recipe,
        "state": status.state,
        "reason": status.reason,
        "exit_code": status.exit_code,
        "over": status.over,
        "argv": list(sweep.argv),
        "created": sweep.created,
        "ended": sweep.ended,
        "tags": list(sweep.tags),
        "note": sweep.note,
        "steps": [_as_json(member) for member in sweep.members],
    }


def stages_as_csv(sweep: Sweep) -> str:
    """A line for each step."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("index", "step", "job", "state", "exit_code", "seconds", "reused"))
    for m in sweep.members:
        seconds = m.record.elapsed if m.record else None
        lines.writerow((m.index, m.step, m.name, m.state, m.code, seconds, "yes" if m.reused else ""))
    return text.getvalue()


def _row(member: Member) -> list[Any]:
    state = _REUSED if member.reused else member.state
    job = member.name if member.started or member.reused else ""
    time = took(member.record) if member.record and not member.reused else ""
    return [str(member.index), member.step, Styled(state, COLOURS.get(state, "dim")), time, job]


def _as_json(member: Member) -> dict[str, Any]:
    return {
        "index": member.index,
        "step": member.step,
        "job": member.name,
        "state": member.state,
        "exit_code": member.code,
        "elapsed": member.record.elapsed if member.record else None,
        "reused": member.reused,
        "outputs": dict(member.record.outputs) if member.record else {},
    }


def _report(sweep: Sweep) -> list[str]:
    """What the last step has written for people (`report.txt`, figures) in one of its outputs, where it can be seen."""
    last = sweep.members[-1] if sweep.members else None
    folders = [str(each) for each in last.record.outputs.values()] if last and last.record else []
    if not last or last.state != "succeeded":
        return []
    if folders and not any(Path(folder).is_dir() for folder in folders):
        return ["", f"  the outputs of {last.step} cannot be seen from this machine: {', '.join(folders)}"]
    try:
        file = next((path for folder in folders if (path := Path(folder, REPORT)).is_file()), None)
        if file is None:
            return []
        text = read_regular(file, follow=True)[:_LONGEST].decode("utf-8", "replace")
    except OSError:  # of another user, or too large to be for people: the pipeline is no less done
        return []
    shown = [file, *_figures(file.parent)]
    return ["", *(clean(line) for line in text_lines(text)), *(f"  ({clean(display_path(each))})" for each in shown)]


def _figures(folder: Path) -> list[Path]:
    """What there is to look at beside a report, by its kind of file."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix.lower() in _FIGURES)[:_MOST_FIGURES]
    except OSError:  # of another user
        return []


def _failures(sweep: Sweep) -> list[str]:
    lines = []
    for member in sweep.members:
        if member.state in ("failed", "lost"):
            cause = one_line(member.cause).partition("\n")[0]
            lines.append(paint(f"  {member.step} {member.state}: {clean(cause)}", "red"))
            if member.log.exists():
                lines.append(f"     log: {display_path(member.log)}")
    if lines:
        lines.append(f"  go on from there: {shlex.join(['nemotron', *sweep.argv[1:]])}")
    return lines
