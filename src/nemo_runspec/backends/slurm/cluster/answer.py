"""How the errands' bash scripts answer: sections with a name and an exit status, rows of fields, and what was said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from nemo_runspec.transport.chatter import without_chatter

FIELD, SECTION, ERROR = "\x1f", "\x1e", "\x1d"
"""Separators, and what a line of an error stream begins with.

Slurm's commands print them as they are given (seen in 22.05), and no name, path or reason holds one.
"""

_OWN = re.compile(
    r"(?:sbatch|squeue|sacct|sacctmgr|scancel|scontrol|sinfo|srun|salloc|slurm_\w+|allocation failure)(?: error)?: "
)
"""How lines of Slurm's programs begin; a site's wrapper around them says other things."""

_MOST = 2000
"""Characters of a reason, which a person is to read."""
_NUMBER = re.compile(r"[0-9]{1,15}")


ANOTHER = 33
"""The code of a section about an id that another job has now (`is_another`)."""


@dataclass(slots=True)
class Section:
    """One part of an answer.

    Args:
        code: the exit status of the command that made it.
        rows: its lines that hold fields. `lines`: its other lines.
        errors: what it wrote to its error stream. It is no part of the answer.
    """

    name: str
    code: int
    rows: list[list[str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def said(self) -> str:
        """What it said beside its rows, on one line."""
        return _joined(self.lines)

    @property
    def notes(self) -> list[str]:
        """What its error stream holds for a person, without what says nothing."""
        return without_chatter(self.errors)

    @property
    def reason(self) -> str:
        """Why it failed, on one line: Slurm's own words, else those of the error stream, else what it said."""
        own = [line for line in (*self.errors, *self.lines) if _OWN.match(line)]
        return _joined(own or self.notes or without_chatter(self.lines))[:_MOST]


def _joined(lines: Sequence[str]) -> str:
    return "; ".join(line.strip() for line in lines if line.strip())


def whole(text: str) -> int | None:
    """A whole number, 0 or more, of an answer; None for what is none, and for one that means nothing in this world."""
    return int(text) if _NUMBER.fullmatch(text) else None


def read_sections(text: str) -> list[Section]:
    """The sections of an answer, in order. What comes before the first, such as a login message, is left out."""
    found: list[Section] = []
    for part in text.split(SECTION)[1:]:
        head, _, body = part.partition("\n")
        name, _, code = head.partition(FIELD)
        status = whole(code)
        section = Section(name, 1 if status is None else status)
        for line in body.split("\n"):  # `splitlines` would also break it at ERROR
            if line.startswith(ERROR):
                section.errors.append(line[1:])
            elif FIELD in line:
                section.rows.append(line.split(FIELD))
            elif line.strip():
                section.lines.append(line)
        found.append(section)
    return found
