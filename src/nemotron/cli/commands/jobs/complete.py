"""What the shell offers after TAB for jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nemo_runspec.records.index import Entry

Completion = Callable[[Any, Any, str], list[str]]


def _from(words: Callable[[Sequence[Entry]], Iterable[str | None]]) -> Completion:
    def complete(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
        from nemo_runspec.sweeps.overview import Overview

        found = dict.fromkeys(words(Overview().everything))
        return [word for word in found if word and word.startswith(incomplete)]

    return complete


jobs = _from(lambda entries: ["last", *(e.name for e in entries if not e.is_sweep)])
jobs_and_groups = _from(lambda entries: ["last", *(e.group for e in entries), *(e.name for e in entries)])
recipes = _from(lambda entries: [e.recipe for e in entries])
profiles = _from(lambda entries: [e.profile for e in entries])
groups = _from(lambda entries: [e.group for e in entries])


def states(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """States a job may be in."""
    from nemo_runspec.records import STATES

    return [state for state in STATES if state.startswith(incomplete)]
