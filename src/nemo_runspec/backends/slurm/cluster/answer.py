"""How the errands' bash scripts answer: sections with a name and an exit status, rows of fields, and what was said."""

from __future__ import annotations

from dataclasses import dataclass, field

FIELD, SECTION = "\x1f", "\x1e"
"""Separators. Slurm's commands print them as they are given (seen in 22.05), and no name, path or reason holds one."""

PRELUDE = r"""
set +e
shopt -u failglob; shopt -s nullglob
export LC_ALL=C SLURM_TIME_FORMAT=%s
unset CDPATH GREP_OPTIONS ${!SQUEUE_@} ${!SACCT_@} ${!SCANCEL_@} ${!SINFO_@}
# NAME CODE [TEXT]
section() { printf '\036%s\037%s\n' "$1" "$2"; [ -z "${3-}" ] || printf '%s\n' "$3"; }
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


@dataclass(slots=True)
class Section:
    """One part of an answer.

    Args:
        code: the exit status of the command that made it.
        rows: its lines that hold fields. `lines`: its other lines, errors of the command among them.
    """

    name: str
    code: int
    rows: list[list[str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def said(self) -> str:
        """What it said beside its rows, on one line."""
        return "; ".join(line.strip() for line in self.lines if line.strip())


def read_sections(text: str) -> list[Section]:
    """The sections of an answer, in order. What comes before the first, such as a login message, is left out."""
    found: list[Section] = []
    for part in text.split(SECTION)[1:]:
        head, _, body = part.partition("\n")
        name, _, code = head.partition(FIELD)
        section = Section(name, int(code) if code.lstrip("-").isdecimal() else 1)
        for line in body.splitlines():
            if FIELD in line:
                section.rows.append(line.split(FIELD))
            elif line.strip():
                section.lines.append(line)
        found.append(section)
    return found
