"""Which pulls of an image may succeed the next time: needed for each look at a job that starts, so it stands alone."""

from __future__ import annotations

import re

from nemo_runspec.diagnosis.phrases import BUSY, MAY_PASS

_PASSING = re.compile(
    rf"{BUSY}|\b50\d\b|timed[ -]out|\btimeout\b|\bconnection\b|\bEOF\b|\breset\b|{MAY_PASS}",
    re.IGNORECASE,
)
_NO_NAME = re.compile(r"no such host", re.IGNORECASE)
_NO_CAUSE = re.compile(r"(?:\w+: )?(?:Error: \w+$|Back-?off)", re.IGNORECASE)


def may_pass(text: str) -> bool:
    """True for a transient image-pull error; the kubelet retries these itself."""
    return _PASSING.search(text) is not None and not _NO_NAME.search(text)


def names_cause(text: str) -> bool:
    """True if a message names a cause. The kubelet writes others beside it, newer ones mostly:
    `Error: ErrImagePull`, `Back-off pulling image …`."""
    return not _NO_CAUSE.match(text)
