"""A diagnosis as it is shown: rows of a label and a line, ours first, then what the platform itself makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_runspec.lines import text_lines

_OURS = {"diagnosis": "what", "seen in": "evidence", "what to do": "remedy"}
_THEIRS = {"says": "err_class", "suggests": "suggestion", "shows": "log_streams"}
_LINES = 3
"""Last lines of the platform's log snippets that are shown; `--json` has all of them."""


def rows_of(diagnosis: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What there is of a `provider.Diagnosis` as a record keeps it, without its kind."""
    rows = [(label, str(diagnosis.get(key) or "")) for label, key in _OURS.items()]
    said = platform_of(diagnosis)
    name = said.get("name") or "the platform"
    rows += [(f"{name} {label}", _text(said.get(key))) for label, key in _THEIRS.items()]
    return [(label, text) for label, text in rows if text]


def platform_of(diagnosis: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the platform itself makes of it; empty where it says nothing, or an older release has written it down."""
    said = diagnosis.get("platform")
    return said if isinstance(said, Mapping) else {}


def lines_of(streams: Any) -> Iterator[str]:
    """The lines of log snippets, whatever shape a platform gives them; names of replicas beside them are no lines."""
    if isinstance(streams, str):
        yield from (line for line in text_lines(streams) if line.strip())
    elif isinstance(streams, Mapping):
        inner = [each for each in streams.values() if isinstance(each, (list, tuple, Mapping))]
        for each in inner or streams.values():
            yield from lines_of(each)
    elif isinstance(streams, (list, tuple)):
        for each in streams:
            yield from lines_of(each)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else " / ".join([line.strip() for line in lines_of(value)][-_LINES:])
