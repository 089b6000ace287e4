"""Words of a shell script, quoted the one way that all jobs have."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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


def exports(values: Mapping[str, str]) -> str:
    """The text of a file of secrets: a line of bash for each variable."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def assignments(values: Mapping[str, str | Sequence[str]], prefix: str = "") -> str:
    """Lines of bash that set variables, the last one without its end. A sequence of words becomes an array."""
    words = {
        name: shlex.quote(value) if isinstance(value, str) else f"({shlex.join(value)})"
        for name, value in values.items()
    }
    return "\n".join(f"{prefix}{name}={word}" for name, word in words.items())


def json_page(values: Mapping[str, Any]) -> str:
    """JSON with a line for each value that says something, for a script that people read.

    What is None, False, 0 or empty is what its reader takes for granted. Without escapes: a path of other letters has
    to be the same bytes where the locale knows no such letters.
    """
    lines = ",\n".join(f'  "{key}": {json.dumps(value, ensure_ascii=False)}' for key, value in values.items() if value)
    return f"{{\n{lines}\n}}"
