"""Questions beside a job's own state: its pods, its events, its log. They decorate what is known and never hide it.

A platform answers each of them from another service, which may be broken, or closed to us, for as long as it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from nemo_runspec.errors import UserError
from nemo_runspec.transport.web import Web

T = TypeVar("T")

SECONDS = 5.0
"""That such a question may take in all."""

_LONGEST = 160


class Aside:
    """The side questions of one look. What was not answered once is not asked again within it.

    Args:
        platform: its name, for a person.
        webs: whose patience is less meanwhile.

    Attributes:
        unanswered: what was not answered, in the words of `of`, and why.
    """

    def __init__(self, platform: str, *webs: Web | None) -> None:
        self.platform = platform
        self.unanswered: dict[str, str] = {}
        self._webs = [web for web in webs if web is not None]

    def of(self, name: str, ask: Callable[..., T], *args: Any) -> T | None:
        """The answer, None without one. `name`: what is asked for, for a person, such as `events`."""
        if name in self.unanswered:
            return None
        try:
            with ExitStack() as stack:
                for web in self._webs:
                    stack.enter_context(web.within(SECONDS))
                return ask(*args)
        except UserError as error:
            self.unanswered[name] = _first_line(error)
            return None

    def listed(self, name: str, ask: Callable[..., list[T]], *args: Any) -> list[T]:
        """The same for a list, which is empty without an answer."""
        return self.of(name, ask, *args) or []

    def lacks(self, *names: str) -> str:
        """Why one of these was not answered, '' where all were, or none was asked for."""
        return next((self.unanswered[name] for name in names if name in self.unanswered), "")

    def summary(self) -> str:
        """What was not answered, and why, for a person; '' where all was."""
        if not self.unanswered:
            return ""
        names, why = ", ".join(sorted(self.unanswered)), next(iter(self.unanswered.values()))
        return f"{self.platform} did not tell its {names}: {why}"


def _first_line(error: UserError) -> str:
    line = error.what.partition("\n")[0]
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
