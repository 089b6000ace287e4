"""Profile keys that are meant for some jobs alone: `build_partition`, `run_partition` and `batch_partition` beside
`partition`. Which of them decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from nemo_runspec.plans.model import MODES

BUILD = "build"
"""The kind of recipe that makes an image."""


def keys_of(base: str) -> tuple[str, ...]:
    """All keys for one fact, whatever jobs they are meant for; `base` itself is for all."""
    return (*(f"{kind}_{base}" for kind in (BUILD, *MODES)), base)


def meant_keys(base: str, mode: str, kind: str | None) -> tuple[str, ...]:
    """Those that are meant for a job, the stronger ones first: a build's, its mode's, that of all."""
    return tuple(key for key in keys_of(base) if key == base or key in (f"{mode}_{base}", f"{kind}_{base}"))


def deciding_key(keys: Iterable[str], env: Mapping[str, Any], given: Collection[str]) -> str | None:
    """The first of the keys that is set, one of the command line before all others; None where none is.

    Args:
        env: the merged `run.env`.
        given: the keys that were given on the command line.
    """
    found = [key for key in keys if env.get(key) not in (None, "")]
    return next((key for key in found if key in given), found[0] if found else None)
