"""What systems, registries and platforms say of one trouble, each once: patterns, found whatever the case of letters.

Which lines it is looked for in, and what to do about it, is told by the table that names it. It stands alone: looks at
jobs that start need some of it, and submissions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

NO_SPACE = r"no space left|\[errno 28\]|wrote only \d+ of"
"""glibc's ENOSPC, Python's, and GNU tar's own words of a disk that is full."""

QUOTA = r"disk quota exceeded|\[errno 122\]"
READ_ONLY = r"read-only file system"
DENIED = r"permission denied"

UNAUTHORIZED = r"unauthori[sz]ed|forbidden|\b40[13]\b|(?<!permission )\bdenied\b"
REFUSED = rf"{UNAUTHORIZED}|authenticat|authori[sz]ation|no basic auth|insufficient_scope|access to the resource"
"""A registry wants another login, of a line that is about one, and about a failure."""

ABSENT = (
    r"manifest.{0,20}unknown|unknown manifest|\bnot found|\b404\b|no such(?! host)|does not exist|invalidimagename|"
    r"invalid reference|name.{0,20}invalid|couldn't parse image"
)
"""A registry has no such image, of a line that is about one."""

BUSY = r"toomanyrequests|rate limit|\b429\b"

MAY_PASS = (
    r"server misbehaving|temporary failure in name resolution|network is unreachable|no route to host|"
    r"i/o timeout|connection refused|tls handshake"
)
"""Network errors that may pass by themselves: of a pull, the node tries again."""

UNREACHED = rf"no such host|{MAY_PASS}"
"""Network errors, in Go's words and the C library's, by which a server was never talked to: no name, way, connection.

`no such host` is a name server's own answer that there is no such name, and stays so.
"""

PULL_FAILED = (
    r"errimage|imagepullback|image ?pull\w* ?(?:fail|err|back)|fail\w* to pull|pull\w* (?:the )?image.{0,40}fail|"
    r"back-?off pulling"
)
MOUNT_FAILED = r"mount point|failed ?mount|mountvolume|fail\w* to mount|failedattachvolume"
NO_ROOM = (
    r"failedscheduling|unschedulable|\b0/\d+ nodes? (?:are|is) available|\binsufficient\b|no ?capacity|"
    r"out of capacity|quota|not enough|no (?:free|idle|available) (?:node|gpu|resource)|"
    r"resources? (?:are |is )?unavailable|overlimit"
)


def first_in(text: str, table: Mapping[str, str]) -> str:
    """What the first pattern stands for that is found in a text, '' for none."""
    return next((told for pattern, told in table.items() if re.search(pattern, text, re.IGNORECASE)), "")
