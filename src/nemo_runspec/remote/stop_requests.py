"""Asks several jobs to stop; one that its platform refuses to stop does not keep the others running."""

from __future__ import annotations

from collections.abc import Sequence

from nemo_runspec.backends.provider import Handle, Provider
from nemo_runspec.errors import UserError


def stop_each(provider: Provider, handles: Sequence[Handle], by: str, *, hard: bool) -> list[UserError | None]:
    """Asks jobs of one machine to stop; for each why that cannot be done, None where it was. One round trip if it can.

    A platform that refuses is asked about them one by one; one that does not answer is not asked again.
    """
    if not handles:
        return []
    try:
        provider.stop(handles, by, hard=hard)
    except UserError as error:
        if len(handles) == 1 or error.transient:
            return [error for _ in handles]
        return [stop_each(provider, [handle], by, hard=hard)[0] for handle in handles]
    return [None for _ in handles]
