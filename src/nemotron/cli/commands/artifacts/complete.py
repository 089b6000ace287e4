"""Completes artifacts, versions and tags of the store of this machine after TAB. An error offers nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nemo_runspec.errors import UserError

if TYPE_CHECKING:
    from nemo_runspec.artifacts.registry import Registry, Version
    from nemotron.cli.click import Context


def artifacts(ctx: Context, _param: Any, incomplete: str) -> list[str]:
    """Names of artifacts."""
    found = _registry(ctx)
    return [name for name in (found.names() if found else ()) if name.startswith(incomplete)]


def references(ctx: Context, _param: Any, incomplete: str) -> list[str]:
    """Names and, behind a colon, their versions and tags."""
    if ":" not in incomplete:
        return artifacts(ctx, _param, incomplete)
    name = incomplete.partition(":")[0]
    words = [
        f"{name}:{word}"
        for version in _versions(ctx, name)
        for word in (version.reference.partition(":")[2], *version.tags)
    ]
    return [word for word in (f"{name}:latest", *words) if word.startswith(incomplete)]


def tags(ctx: Context, _param: Any, incomplete: str) -> list[str]:
    """Tags of any version."""
    found = _registry(ctx)
    known = {tag for version in (found.everything() if found else ()) for tag in version.tags}
    return sorted(tag for tag in known if tag.startswith(incomplete))


def _versions(ctx: Context, name: str) -> list[Version]:
    found = _registry(ctx)
    return found.versions(name) if found else []


def _registry(ctx: Context) -> Registry | None:
    """Only of a store that is asked nothing over a network."""
    if ctx.params.get("profile"):
        return None
    from nemo_runspec.artifacts.local_store import LocalStorage
    from nemotron.cli.commands.artifacts.opening import opened

    try:
        found = opened(None, ctx.params.get("root"))
        if not isinstance(found.storage, LocalStorage):
            return None
        found.names()
    except UserError:
        return None
    return found
