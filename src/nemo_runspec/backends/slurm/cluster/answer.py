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

PRELUDE = r"""
set +e
shopt -u failglob; shopt -s nullglob
export LC_ALL=C SLURM_TIME_FORMAT=%s
unset CDPATH GREP_OPTIONS ${!SQUEUE_@} ${!SACCT_@} ${!SCANCEL_@} ${!SINFO_@}
# NAME CODE [TEXT [ERRORS]]: ERRORS is what came on an error stream.
section() {
  local line=$'\n'
  printf '\036%s\037%s\n' "$1" "$2"
  [ -z "${3-}" ] || printf '%s\n' "$3"
  [ -z "${4-}" ] || printf '\035%s\n' "${4//$line/$line$'\035'}"
}
# COMMAND...: leaves in `said` what it writes, and in `errors` what it writes to its error stream; ends as it does. What
# comes there, from it or from what it leaves running, is never part of an answer, nor in the middle of one.
hear() {
  local both head
  both=$(
    exec 3>&1
    said=$("$@" 2>&3 3>&-)
    printf '\035%s %s\n%s\035' "$?" "${#said}" "$said"
  )
  errors=${both%%$'\035'*} both=${both#*$'\035'}
  head=${both%%$'\n'*} both=${both#*$'\n'}
  said=${both:0:${head#* }} errors+=${both:${head#* }+1}
  return "${head% *}"
}
"""
"""What every script begins with: nothing a user's shell sets may change what is asked or how it is answered."""

SLURM_NAME = r"""
# Which Slurm this is, in small letters; nothing where that is not known.
slurm_name() {
  local file name= found='s/^[[:space:]]*ClusterName[[:space:]]*=[[:space:]]*"*\([^[:space:]"#]*\).*/\1/Ip'
  for file in "${SLURM_CONF:-/etc/slurm/slurm.conf}" /run/slurm/conf/slurm.conf; do
    [ -n "$name" ] || name=$(sed -n "$found" "$file" 2> /dev/null | tail -n 1)
  done
  # The file may include others or be on another machine: then the controller is asked.
  [ -n "$name" ] || name=$(timeout 10 scontrol show config 2> /dev/null < /dev/null | sed -n "$found")
  printf '%s' "${name,,}"
}
"""
"""A function for scripts: the `ClusterName` of the configuration. Costs no question to Slurm where that can be read."""

STOPPING = r"""
# SECTION SLURM: answers, and succeeds, where a job was submitted to another Slurm than this one, `here`.
is_elsewhere() {
  [ -n "$2" ] && [ -n "$here" ] && [ "$2" != "$here" ] || return 1
  section "$1" 1 "this is cluster $here, and the job was submitted to $2"
}
# WORD: whether it is the id of a job or of a task of an array: nothing else is ever asked about or cancelled.
is_job() { [[ $1 =~ ^[0-9]+(_[0-9]+)?$ ]]; }
# SECTION NAME CALLED: answers, and succeeds, where the job that has this id now has another name: a cluster whose state
# was lost counts from 1 again.
is_another() {
  [ -n "$2" ] && [ -n "$3" ] && [ "$2" != "$3" ] || return 1
  section "$1" 33 "this id is that of another job now, '$3', which is left alone"
}
# STATUS SAID: whether scancel refused only because the job has ended since squeue was asked. Seen with 22.05; 229 is
# 2021 (already done) in eight bits.
has_ended_since() { [[ $1 -eq 229 || $2 == *'Invalid job id specified'* || $2 == *'already completing'* ]]; }
# FOLDER: leaves in a job's folder who wants it to stop. With that its batch shell does not have it requeued.
leave_wish() {
  local file=$1/status/cancelled
  [ -d "$1" ] && [ ! -e "$file" ] || return 0
  (
    umask 077
    mkdir -p "$1/status"
    # Whole, or where the disk is full without a name.
    { printf '%s\n' "$by" > "$file.$$" && mv -f "$file.$$" "$file"; } || { rm -f "$file.$$"; : > "$file"; }
  ) 2> /dev/null
}
"""
"""Functions for the scripts that stop jobs; they come after `SLURM_NAME`."""

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
