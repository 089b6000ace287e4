"""Completes names of jobs after TAB: those that the command has something to do with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from nemo_runspec.backends import find_backend
from nemotron.cli.complete import Completion

if TYPE_CHECKING:
    from nemo_runspec.records.index import Entry


def _any(entry: Entry) -> bool:
    return True


def _live(entry: Entry) -> bool:
    return not entry.over or entry.state == "lost"


def _over(entry: Entry) -> bool:
    return entry.over


def _elsewhere(entry: Entry) -> bool:
    backend = find_backend(entry.executor)
    return backend is not None and backend.remote


_ACCEPTS: dict[str, Callable[[Entry], bool]] = {
    "wait": _live,
    "stop": _live,
    "cancel": _live,
    "rm": _over,
    "retry": _over,
    "diagnose": lambda entry: entry.state != "succeeded",
    "ssh": lambda entry: entry.state == "running",
    "ray": lambda entry: not entry.over,
    "forward": lambda entry: entry.state == "running",
    "events": _elsewhere,
    "replicas": _elsewhere,
}
"""Which jobs a command is for; all of them where it does not stand here."""


def jobs(ctx: Any, param: Any, incomplete: str) -> list[Any]:
    """Jobs that the command is for, and `last`."""
    return _named(ctx, incomplete, [entry for entry in _entries() if not entry.is_sweep], sweeps=False)


def jobs_and_groups(ctx: Any, param: Any, incomplete: str) -> list[Any]:
    """Jobs and sweeps that the command is for, and `last`; none that stands on the line already."""
    return _named(ctx, incomplete, _entries(), sweeps=True)


def _named(ctx: Any, incomplete: str, entries: Sequence[Entry], *, sweeps: bool) -> list[Any]:
    from nemotron.cli.click import CompletionItem

    accepts = _ACCEPTS.get(ctx.info_name or "", _any)
    typed = ctx.params.get("jobs") or ()
    meant = [entry for entry in entries if accepts(entry)]
    kinds = {entry.name: entry.noun for entry in entries if entry.is_sweep}
    named = [(entry.group, entry.recipe) for entry in meant if sweeps and entry.group]
    groups = {group: f"{kinds.get(group, 'sweep')} of {recipe}" for group, recipe in named}
    found = {**groups, **{entry.name: f"{entry.state}, {entry.recipe}" for entry in meant if not entry.is_sweep}}
    words = {**({"last": "the newest"} if found else {}), **found}
    return [
        CompletionItem(name, help=text)
        for name, text in words.items()
        if name.startswith(incomplete) and name not in typed
    ]


def _entries() -> Sequence[Entry]:
    from nemo_runspec.sweeps.overview import Overview

    return Overview().everything


def _from(words: Callable[[Sequence[Entry]], Iterable[str | None]]) -> Completion:
    def complete(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
        found = dict.fromkeys(words(_entries()))
        return [word for word in found if word and word.startswith(incomplete)]

    return complete


recipes = _from(lambda entries: [e.recipe for e in entries])
profiles = _from(lambda entries: [e.profile for e in entries])
groups = _from(lambda entries: [e.group for e in entries])


def what(ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """What can be brought here of the job that is named before."""
    from nemo_runspec.errors import UserError
    from nemo_runspec.records import JobStore
    from nemo_runspec.remote.pull import WHAT
    from nemo_runspec.sweeps.overview import find_job

    found = list(WHAT)
    with suppress(UserError):
        found += find_job(JobStore(), str(ctx.params.get("job") or "last")).outputs
    return [word for word in found if word.startswith(incomplete)]


def states(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """States a job may be in."""
    from nemo_runspec.records import STATES

    return [state for state in STATES if state.startswith(incomplete)]
