"""Requests made again: with fresh credentials where good ones were refused, and where a gateway answered in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from nemo_runspec.errors import UserError
from nemo_runspec.polling import tried
from nemo_runspec.transport.web import Malformed, NotKnown, Refused

T = TypeVar("T")

_OWN = frozenset({401, 403, 404})
"""Statuses by which a platform itself answers whoever asks how a job is."""

PAUSES: Sequence[float] = (0.5, 3.0)
"""Seconds before each further try."""


def with_fresh_credentials(ask: Callable[[], T], renew: Callable[[], object]) -> T:
    """The answer to a question that may be asked twice, also where credentials that were taken are refused for once.

    Args:
        ask: only what does no harm if it is done twice.
        renew: gets the credentials anew, from where they are kept.

    Raises:
        Refused: they are still refused, or it is something else.
    """

    def wait(pause: float) -> None:
        time.sleep(pause)
        renew()

    return tried(ask, PAUSES, lambda error: isinstance(error, Refused) and error.status in (401, 403), wait)


def unless_missing(ask: Callable[..., T], *args: Any) -> T | None:
    """The answer, None where the platform has no such thing (HTTP 404)."""
    try:
        return ask(*args)
    except Refused as error:
        if error.status != 404:
            raise
        return None


def about_a_job(error: Refused) -> UserError:
    """A refusal of the question how a job is: the platform's own, or that of something on the way to it.

    Every other status, such as a gateway's 400 or 410, says nothing about a job, and may pass.
    """
    return error if error.status in _OWN else Malformed(error.what, where=error.where, remedy=error.remedy)


def until_it_makes_sense(act: Callable[[], object]) -> None:
    """Makes a change that may be made twice. A gateway's page is no answer: it is made again.

    Where there is nothing to be changed any more by then, the first one has done it.

    Raises:
        NotKnown: none of the answers made sense. Others as `act`.
    """
    for number, pause in enumerate((*PAUSES, None)):
        try:
            act()
            return
        except NotKnown:
            if pause is None:
                raise
            time.sleep(pause)
        except Refused as error:
            if not number or error.status != 404:
                raise
            return
