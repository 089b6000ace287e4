"""Recognises lines that give no reason for a failure: a locale that is missing, a library that cannot be preloaded."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CHATTER = re.compile(
    r"^ERROR: ld\.so: object .* cannot be preloaded|\bsetlocale: |cannot change locale|^perl: warning: |"
    r"^\s+(?:LANGUAGE|LC_\w+|LANG) = |^\s+are supported and installed on your system|can't set the locale|"
    r"^Warning: Permanently added |^\*\* (?:WARNING: connection is not using|This session may be|The server may need)|"
    r"^tput: |^stty: |^bash: (?:cannot set terminal process group|no job control in this shell)"
)
"""Lines of ld.so(8), bash, perl, man and ssh, as they word them."""


def without_chatter(lines: Sequence[str]) -> list[str]:
    """The lines that may be a reason, or a note for a person. Empty ones are left out."""
    return [line for line in lines if line.strip() and not is_chatter(line)]


def is_chatter(line: str) -> bool:
    """True where a line is no reason of anything."""
    return _CHATTER.search(line) is not None
