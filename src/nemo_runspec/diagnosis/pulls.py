"""Which pulls of an image may succeed the next time: needed for each look at a job that starts, so it stands alone."""

from __future__ import annotations

import re

_MAY_PASS = (
    r"server misbehaving|temporary failure in name resolution|network is unreachable|no route to host|"
    r"i/o timeout|connection refused|tls handshake"
)
"""Network errors that may pass by themselves: of a pull, the node tries again."""

UNREACHED = rf"no such host|{_MAY_PASS}"
"""Network errors, in Go's words and the C library's, by which a server was never talked to: no name, way, connection.

`no such host` is a name server's own answer that there is no such name, and stays so.
"""

_PASSING = re.compile(
    r"toomanyrequests|rate limit|\b429\b|\b50\d\b|timed[ -]out|\btimeout\b|\bconnection\b|\bEOF\b|\breset\b|"
    + _MAY_PASS,
    re.IGNORECASE,
)
_NO_NAME = re.compile(r"no such host", re.IGNORECASE)
_NO_CAUSE = re.compile(r"(?:\w+: )?(?:Error: \w+$|Back-?off)", re.IGNORECASE)


def may_pass(text: str) -> bool:
    """Whether a pull that failed so this time may not fail the next time: the node tries by itself."""
    return _PASSING.search(text) is not None and not _NO_NAME.search(text)


def names_cause(text: str) -> bool:
    """Whether a message says of what something failed. The kubelet writes others beside it, newer ones mostly:
    `Error: ErrImagePull`, `Back-off pulling image …`."""
    return not _NO_CAUSE.match(text)
