"""Inputs that are versions of artifacts: which one a reference means, and whether it is of a type that is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nemo_runspec.artifacts.local_store import LocalStorage
from nemo_runspec.artifacts.registry import Registry, Version, parse_reference
from nemo_runspec.artifacts.store import LATEST, resolve_latest
from nemo_runspec.artifacts.versions import of_path
from nemo_runspec.errors import UserError
from nemo_runspec.runspec import ArtifactSpec


@dataclass(frozen=True, slots=True)
class FoundVersion:
    """What a reference means. `path`: where its data lie, or the link by which the job will find them.

    Args:
        version: as `v3`, or the tag or job that was asked for where only the job can tell; None for the newest one.
        ready: whether it is there, None where that cannot be known from here.
    """

    path: str
    version: str | None
    ready: bool | None


def reference_of(table: Mapping[str, Any]) -> tuple[str | None, str]:
    """The artifact and the version that an input's table names; the version is '' for the newest one.

    Raises:
        UserError: `artifact` is no name, or there are two versions.
    """
    artifact, version = table.get("artifact"), str(table.get("version") or "")
    if not artifact:
        return None, ""
    if ":" not in artifact:
        return artifact, "" if version == LATEST else version
    name, wanted = parse_reference(artifact)
    if version and version != wanted:
        raise UserError(f"'{artifact}' names a version, and version = {version} another one", remedy="keep one")
    return name, "" if wanted == LATEST else wanted


def found_here(spec: ArtifactSpec, root: str, name: str, wanted: str) -> FoundVersion:
    """The version in a store that this machine sees.

    Raises:
        UserError: there is no such version, or it is of a type that the input does not take.
    """
    if wanted:
        version = Registry(LocalStorage(root), [name]).get(f"{name}:{wanted}")
        require_type(spec.name, spec.type, version.type, version.reference)
        return FoundVersion(version.path, _number(version), LocalStorage(root).has(version.path))
    path = resolve_latest(root, name)
    if path is None:
        return FoundVersion(f"{root}/{name}/{LATEST}", None, False)
    known = of_path(path)
    require_type(spec.name, spec.type, str(known.get("type", "")), f"{name}:v{known.get('version')}")
    return FoundVersion(path, f"v{known['version']}" if known else None, True)


def found_there(root: str, name: str, wanted: str) -> FoundVersion:
    """The link that leads to the version, in a store that the job sees."""
    word = f"v{wanted}" if wanted.isdigit() else wanted
    return FoundVersion(f"{root}/{name}/{word or LATEST}", word or None, None)


def require_type(name: str, wanted: str, made: str, reference: str) -> None:
    """Raises `UserError` where an input of that type does not take what was made; '' is what nobody has said."""
    if not made or made == wanted:
        return
    from nemo_runspec.artifacts.types import Types

    if not Types.load().accepts(wanted, made):
        raise UserError(
            f"input '{name}' takes {wanted}, and {reference} is {made}",
            remedy=f"versions that fit: nemotron artifacts list --type {wanted}",
        )


def _number(version: Version) -> str | None:
    return f"v{version.number}" if version.is_numbered else None
