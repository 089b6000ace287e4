"""Repositories mounted into a job. (Being written: see the contract in the lead's message.)"""

from __future__ import annotations

from collections.abc import Callable

from nemo_runspec.planning.model import AutoMount


def provide_mounts(mounts: tuple[AutoMount, ...], say: Callable[[str], None]) -> tuple[AutoMount, ...]:
    """Clones and checks out."""
    if mounts:
        raise NotImplementedError
    return mounts
