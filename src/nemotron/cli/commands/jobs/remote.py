"""`nemotron jobs logs` for a job of another machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nemotron.cli.commands.jobs.messages import say

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord, JobStore
    from nemo_runspec.records.log_view import LogView
    from nemo_runspec.records.status import JobStatus


def fetch_log(store: JobStore, record: JobRecord) -> JobRecord:
    """Fetches what is new of a job's log; what cannot be fetched is said, and what is here already is shown."""
    from nemo_runspec.remote.follow import fetch_log

    told = "this is what had been fetched before"
    return fetch_log(store, record, lambda what: say(f"{record.name}: {what}; {told}"))


def platform_log(record: JobRecord, write: Callable[[bytes], object]) -> None:
    """Writes what the platform has written about a job. Raises `UserError` where it cannot be asked."""
    from nemo_runspec.backends import get_backend
    from nemo_runspec.backends.provider import Json
    from nemo_runspec.remote.log_mirror import LIMIT

    provider, cursors, more = get_backend(record.executor).load_provider(), dict[str, Json](), True
    while more:
        pieces = provider.read_log(record.handle, cursors, LIMIT, platform=True)
        for piece in pieces:
            write(piece.content)
            cursors[piece.path] = piece.cursor
        more = any(piece.more for piece in pieces)


def follow_log(store: JobStore, record: JobRecord, view: LogView, tail: int | None) -> JobRecord:
    """Follows a job's log until it is over."""
    from nemo_runspec.remote.follow import Follower

    return Follower(store, record, _Quiet(), view, tail=tail).run()


class _Quiet:
    """Says only what keeps the log from coming."""

    def __init__(self) -> None:
        self._state = self._trouble = self._overdue = ""

    def seen(self, record: JobRecord, seen: JobStatus) -> None:
        """A job that waits has no log; one that waits for too long may never have one."""
        if record.state != self._state and record.state in ("queued", "starting"):
            say(f"{record.name} is {record.state}; its log will be shown once there is one")
        overdue = seen.facts.overdue
        if overdue and overdue != self._overdue:
            say(f"{record.name} is {record.state} {overdue}; why: nemotron jobs diagnose {record.name}")
        self._state, self._overdue = record.state, overdue

    def trouble(self, text: str) -> None:
        """The platform cannot be asked."""
        if text != self._trouble:
            say(f"{text}; trying again")
        self._trouble = text

    def recovered(self) -> None:
        """Reports that the platform answers again."""
        self._trouble = ""
        say("connected again")

    def clear(self) -> None:
        """Nothing is drawn in place."""
