"""Translates a path of a container into the one outside it, as text: who wants to look there asks for that."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from nemo_runspec.backends.checks import Mount
from nemo_runspec.paths import below


def outside(path: str, mounts: Iterable[str]) -> str | None:
    """The path below the source of the innermost mount that covers it; None for a path of the container's own.

    Args:
        mounts: `source:target[:flags]`.
    """
    whole = posixpath.normpath(path)
    covering = [mount for text in mounts if below(whole, posixpath.normpath((mount := _read(text)).target))]
    if not covering:
        return None
    mount = max(covering, key=lambda each: len(posixpath.normpath(each.target)))
    rest = posixpath.relpath(whole, posixpath.normpath(mount.target))
    return mount.source if rest == "." else f"{mount.source.rstrip('/')}/{rest}"


def _read(text: str) -> Mount:
    return Mount(*text.split(":", 2))
