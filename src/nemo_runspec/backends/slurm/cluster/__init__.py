"""Requests to a Slurm cluster: each module is one errand, in as few round trips as it can be.

Here is what they share: the bash that is sent to a login node, and its answer in sections with a name, an exit status,
rows and lines. A script is `PRELUDE`, the values of one errand, then one of the files beside this, whose function is
called in the last line.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from nemo_runspec.script.quoting import assignments
from nemo_runspec.transport.base import Data, Host
from nemo_runspec.transport.chatter import without_chatter


@cache
def program(path: str, function: str = "") -> str:
    """A script of this backend, such as `cluster/stop.sh`. `function`: of several in it the one that is called."""
    text = (Path(__file__).parents[1] / path).read_text(encoding="utf-8")
    return f"{text}{function}\n" if function else text


PRELUDE = program("cluster/prelude.sh")
"""What every script begins with: nothing a user's shell sets may change what is asked or how it is answered."""


def script_of(path: str, function: str = "", **settings: str | Sequence[str]) -> str:
    """What is sent: a script of this backend, and before it what every script begins with, and its settings."""
    return "\n".join((PRELUDE, assignments(settings), program(path, function)))


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


BUSY = (
    "Socket timed out|Unable to contact slurm controller|Zero Bytes were transmitted|temporarily unable|"
    "Transport endpoint is not connected|standby mode|Connection (refused|reset)|Resource temporarily unavailable|"
    "queue full|Slurm (controller|daemon)? ?(is )?(starting|shutting)|Communication connection failure"
)
"""What a controller that is busy, hung, restarted or away is called; a later attempt may do. For Python and bash."""
_KILLED = (124, 137)
"""Exit codes of a command that `timeout` has ended."""

ANOTHER = 33
"""The code of a section about an id that another job has now (`is_another`)."""


@dataclass(slots=True)
class Section:
    """One part of an answer.

    Args:
        code: the exit status of the command that made it.
        rows: its lines that hold fields.
        lines: its other lines.
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
    def is_busy(self) -> bool:
        """True if Slurm did not answer, which says nothing of the job."""
        return self.code in _KILLED or bool(self.code and re.search(BUSY, self.reason, re.IGNORECASE))

    @property
    def notes(self) -> list[str]:
        """What its error stream holds for a person, without what says nothing."""
        return without_chatter(self.errors)

    @property
    def reason(self) -> str:
        """Why it failed, on one line: Slurm's own words, else those of the error stream, else what it said."""
        own = [line for line in (*self.errors, *self.lines) if _OWN.match(line)]
        return _joined(own or self.notes or without_chatter(self.lines))[:_MOST]


@dataclass(frozen=True)
class Answer:
    """What a script answered.

    Args:
        sections: by name.
        code: its exit status.
        said: its last words, for a person.
        began, ended: when it was asked, in seconds since 1970 by this machine's clock.
    """

    sections: Mapping[str, Section]
    code: int = 0
    said: str = ""
    began: float = 0.0
    ended: float = 0.0

    def __getitem__(self, name: str) -> Section:
        """The section; an empty one with exit status 1 where there is none."""
        return self.sections.get(name) or Section(name, 1)

    def __contains__(self, name: str) -> bool:
        """True if there is such a section."""
        return name in self.sections

    def cell(self, name: str, number: int) -> str:
        """A value of the first row of a section; '' where there is none."""
        row = next(iter(self[name].rows), [])
        return row[number] if len(row) > number else ""

    def column(self, name: str, number: int) -> list[str]:
        """The values of a column, each once."""
        return list(dict.fromkeys(row[number] for row in self[name].rows if len(row) > number and row[number]))

    def path_of(self, tool: str) -> str:
        """Where a program is, as section `tools` tells; '' where it is not."""
        return next((row[1] for row in self["tools"].rows if row[0] == tool), "")


def run_script(host: Host, script: str, *, data: Data = b"", timeout: float = 60.0) -> Answer:
    """Runs a script on a login node. As `Host.run`."""
    began = time.time()
    done = host.run(script, data=data, timeout=timeout)
    return Answer(answer_of(done.text).sections, done.code, done.said, began, time.time())


def answer_of(text: str) -> Answer:
    """What a script answered that wrote this text."""
    return Answer({section.name: section for section in read_sections(text)})


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
        for line in body.split("\n"):
            if line.startswith(ERROR):
                section.errors.append(line[1:])
            elif FIELD in line:
                section.rows.append(line.split(FIELD))
            elif line.strip():
                section.lines.append(line)
        found.append(section)
    return found
