"""Which pulls of an image may succeed the next time: needed for each look at a job that starts, so it stands alone."""

from __future__ import annotations

import re

UNREACHED = (
    r"no such host|server misbehaving|temporary failure in name resolution|network is unreachable|no route to host|"
    r"i/o timeout|connection refused|tls handshake"
)
"""Network errors, in Go's words and the C library's, by which a server was never talked to: no name, way, connection.

They may pass by themselves: of a pull, the node tries again.
"""

PASSING = re.compile(
    r"toomanyrequests|rate limit|\b429\b|\b50\d\b|timed[ -]out|\btimeout\b|\bconnection\b|\bEOF\b|\breset\b|"
    + UNREACHED,
    re.IGNORECASE,
)
"""Words of a pull that failed this time and may not fail the next time: the node tries by itself."""
