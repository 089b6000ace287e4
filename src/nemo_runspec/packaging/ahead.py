"""A question to git that is under way while another one is asked: most of either is waiting for the file system."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """A call that has begun in a thread, in the context of whoever began it (`inert` holds there too).

    Args:
        call: what is called; it must not need anything that is changed meanwhile.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._answers: list[T] = []
        self._errors: list[Exception] = []
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()

    def result(self) -> T:
        """What it returned, once it has. Raises what it raised."""
        self._thread.join()
        for error in self._errors:
            raise error
        return self._answers[0]

    def _run(self) -> None:
        try:
            self._answers.append(self._call())
        except Exception as error:  # noqa: BLE001  # raised again for whoever asks for the answer
            self._errors.append(error)
