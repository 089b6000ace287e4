"""Requests beside a job's own state, for its pods, events or log: they add to what is known and never hide it.

A platform answers each of them from another service, which may be broken, or closed to us, for as long as it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from nemo_runspec.errors import UserError, first_line
from nemo_runspec.text import shorten
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.web import Web

T = TypeVar("T")

SECONDS = 5.0
"""That such a request may take in all."""

_LONGEST = 160


class OptionalRequests:
    """What is asked besides while jobs are looked at once. What was not answered is not asked for again.

    Args:
        platform: its name, for a person.
        webs: whose patience is less meanwhile.
        until_silence: after no answer at all nothing more is asked: it would only take longer.

    Attributes:
        unanswered: what was not answered, and why.
    """

    def __init__(self, platform: str, *webs: Web | None, until_silence: bool = False) -> None:
        self.platform = platform
        self.unanswered: dict[str, str] = {}
        self._webs = [web for web in webs if web is not None]
        self._until_silence = until_silence
        self._silent = ""

    def ask(self, name: str, request: Callable[..., T], *args: Any) -> T | None:
        """The answer, None without one. `name`: what is asked for, for a person, such as `events`."""
        if self._silent:
            self.unanswered.setdefault(name, self._silent)
        if name in self.unanswered:
            return None
        try:
            with ExitStack() as stack:
                for web in self._webs:
                    stack.enter_context(web.within(SECONDS))
                return request(*args)
        except UserError as error:
            self.unanswered[name] = shorten(first_line(error), _LONGEST)
            if self._until_silence and isinstance(error, Unreachable):
                self._silent = self.unanswered[name]
            return None

    def rows(self, name: str, request: Callable[..., list[T]], *args: Any) -> list[T]:
        """The same for a list, which is empty without an answer."""
        return self.ask(name, request, *args) or []

    def why_missing(self, *names: str) -> str:
        """Why one of these was not answered, '' where all were, or none was asked for."""
        return next((self.unanswered[name] for name in names if name in self.unanswered), "")

    def summary(self) -> str:
        """What was not answered, and why, for a person; '' where all was."""
        if not self.unanswered:
            return ""
        names, why = ", ".join(sorted(self.unanswered)), next(iter(self.unanswered.values()))
        return f"{self.platform} did not tell its {names}: {why}"
