"""Words of a shell script, quoted the one way that all jobs have."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from nemo_runspec.errors import UserError


def quote(text: str) -> str:
    """A shell word. Raises `UserError` for what no script can hold."""
    if "\0" in text:
        raise UserError(f"a NUL byte cannot be handed to a job: {text!r}", remedy="put it into a file")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(
            f"text that is not UTF-8 cannot be handed to a job: {text!r}", remedy="put it into a file"
        ) from None
    return shlex.quote(text)


def join(words: Iterable[str]) -> str:
    """Shell words as one line."""
    return " ".join(quote(word) for word in words)
