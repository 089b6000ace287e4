"""Questions to a platform whose answers may be missing: what is not answered is remembered, and is no error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Unreachable

T = TypeVar("T")


class Asking:
    """Asks a platform one thing after the other; what it does not answer is missing, not an error.

    Attributes:
        unanswered: what was not answered. After no answer at all nothing more is asked: it would only take longer.
    """

    def __init__(self) -> None:
        self.unanswered: list[str] = []
        self._silent = False

    def of(self, name: str, ask: Callable[..., T], *args: Any) -> T | None:
        """The answer, None without one. `name`: what is asked about, for a person."""
        if not self._silent:
            try:
                return ask(*args)
            except Unreachable:
                self._silent = True
            except UserError:
                pass
        self.unanswered.append(name)
        return None
