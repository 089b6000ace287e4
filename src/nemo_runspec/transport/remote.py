"""Wraps a script on its way: words every login shell reads alike, a greeting, a status in the output."""

from __future__ import annotations

import secrets
import shlex
from dataclasses import dataclass, field

_GREETING = (
    'echo {mark} >&2; command -v bash >/dev/null && echo {mark} bash || echo {mark} none; IFS= read -r l && eval "$l"'
)
"""For sh. No quote, backslash, exclamation mark or line end: bash, dash, zsh, csh, tcsh and fish read it alike.

The next line of input, which only this sh reads, says how to go on; the script comes after it, and ends with a NUL.
"""

_RUN = 'IFS= read -r -d "" s || exit 1; (eval "$s"); printf "\\n%s %s\\n" {mark} $?'

_START = (
    'IFS= read -r -d "" s || exit 1; exec 3<&0 </dev/null; set -m; '
    "(trap : TERM; set -m; p=$(exec sh -c 'echo $PPID'); "
    "{{ while IFS= read -r -u 3 _; do :; done; kill -TERM -- -$p; sleep 2; kill -KILL -- -$p; }} "
    ">/dev/null 2>&1 & w=$!; set +m; "
    '{{ (eval "$s") 2>&4 3<&- 4>&-; c=$?; }} 4>&2 2>/dev/null; kill -KILL -- -$w; exit $c) & '
    "{{ wait $!; c=$?; }} 2>/dev/null; [ $c = 255 ] && c=254; exit $c"
)
"""The input is a life line: when it ends, because we or the connection have, the script's process group is ended.

Who watches it is started by that group's first process, before the script: whenever the outermost bash is killed, a
script that runs is watched. The first process outlives a TERM, so that the script may end as it likes.
"""

HERE = 'IFS= read -r -d "" s || exit 1; eval "$s"'
"""The same without greeting and status, for a bash on this machine."""

STARTED_HERE = _START.format()


@dataclass(frozen=True, slots=True)
class Wrapping:
    """One script's wrapping. `mark`: a word that stands in nothing else."""

    mark: str = field(default_factory=lambda: f"nemotron-{secrets.token_hex(8)}")

    @property
    def command(self) -> str:
        """The remote command line."""
        return f"exec sh -c '{_GREETING.format(mark=self.mark)}'"

    @property
    def greeting(self) -> bytes:
        """What the other side's first words begin with, once it waits for its script."""
        return f"{self.mark} ".encode()

    def to_run(self, script: str) -> bytes:
        """What is sent ahead of the data: a script whose status comes back in its output."""
        return self._sent(_RUN.format(mark=self.mark), script)

    def to_start(self, script: str) -> bytes:
        """What is sent for a script that goes on until the input ends."""
        return self._sent(STARTED_HERE, script)

    def _sent(self, program: str, script: str) -> bytes:
        # Without --norc, Debian's bash would read ~/.bashrc once more, with the script as its input.
        return f"exec bash --norc -c {shlex.quote(program)}\n".encode() + framed(script)

    def status(self, heard: bytes) -> tuple[int, bytes] | None:
        """Exit status and output of a script that was run, or None where its status never came."""
        begin = heard.rfind(f"\n{self.mark} ".encode())
        end = heard.find(b"\n", begin + 1)
        if begin < 0 or end < 0:
            return None
        return int(heard[begin:end].split()[1]), heard[:begin] + heard[end + 1 :]


def framed(script: str) -> bytes:
    """A script as its reader takes it.

    Raises:
        ValueError: it holds a NUL, which no shell script can.
    """
    if "\0" in script:
        raise ValueError("a script cannot hold a NUL")
    return script.encode("utf-8", "surrogateescape") + b"\0"
