"""`nemotron artifacts list`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from nemo_runspec.steps import short_path
from nemo_runspec.text import clean, size
from nemotron.cli.commands.artifacts.opening import opened, tell_problems, tell_unregistered
from nemotron.cli.forms import CSV, TABLE, WIDE, as_csv, print_data
from nemotron.cli.tables import Cell, Styled
from nemotron.cli.text import short_moment, table

if TYPE_CHECKING:
    from nemo_runspec.artifacts.registry import Registry, Version

_HEAD = ("ARTIFACT", "TYPE", "SIZE", "MADE", "TAGS", "BY")
_WIDE = ("ARTIFACT", "TYPE", "SIZE", "FILES", "MADE", "RECIPE", "JOB", "TAGS", "DIGEST", "PATH")


def call(
    name: str | None, type: str | None, tag: str | None, all: bool, profile: str | None, root: str | None, form: str
) -> int:
    """Prints the list."""
    registry = opened(profile, root, [name] if name else ())
    if name and not registry.versions(name):
        registry.get(name)  # says so
    found = _selected_versions(registry, type, tag, everything=all or bool(name or tag))
    tell_problems(registry)
    tell_unregistered(registry, profile)
    if form == CSV:
        print(as_csv([flat(version) for version in found]), end="")
    elif form in (TABLE, WIDE):
        _print(found, registry, wide=form == WIDE)
    else:
        print_data([as_data(version) for version in found], form)
    return 0


def as_data(version: Version) -> dict[str, Any]:
    """A version as `--json` shows it."""
    return {
        "name": version.name,
        "version": version.number if version.is_numbered else None,
        "reference": version.reference,
        "type": version.type or None,
        "path": version.path,
        "digest": version.digest or None,
        "size": version.size,
        "files": version.files,
        "created": _iso(version.created),
        "latest": version.latest,
        "tags": list(version.tags),
        "note": version.note or None,
        "producer": dict(version.producer),
        "inputs": [dict(known) for known in version.inputs],
        "config": version.config or None,
    }


def flat(version: Version) -> dict[str, Any]:
    """A version as a line of a CSV file."""
    known = as_data(version)
    words = {key: known[key] for key in ("name", "version", "type", "size", "files", "created", "latest")}
    by = {key: version.producer.get(key) for key in ("recipe", "job", "profile")}
    return {**words, "tags": " ".join(version.tags), **by, "digest": version.digest, "path": version.path}


def made_by(version: Version) -> str:
    """What has made it, in a word or two."""
    known = version.producer
    return short_path(str(known.get("recipe") or known.get("job") or known.get("user") or ""))


def _selected_versions(registry: Registry, type: str | None, tag: str | None, *, everything: bool) -> list[Version]:
    from nemo_runspec.artifacts.types import Types

    if not (everything or type):
        newest = (registry.newest(name) for name in registry.names())
        return [version for version in newest if version is not None]
    found = registry.everything()
    types = Types.load() if type else None
    if types is not None and type is not None and all(type != version.type for version in found):
        types.get(type)
    if tag:
        found = [version for version in found if tag in version.tags]
    if types is not None and type is not None:
        found = [version for version in found if types.accepts(type, version.type)]
    return found if everything else _newest(found)


def _newest(versions: Sequence[Version]) -> list[Version]:
    """Of each artifact the first one, which is the newest."""
    return list({version.name: version for version in reversed(versions)}.values())[::-1]


def _print(found: Sequence[Version], registry: Registry, *, wide: bool) -> None:
    if not found:
        known = registry.names()
        print(f"No such versions; {len(known)} artifacts in {registry.storage.name}." if known else _none(registry))
        return
    is_told = any(not version.latest or version.tags for version in found)
    rows = [(_wide if wide else _row)(version) for version in found]
    shown = [number for number, word in enumerate(_WIDE if wide else _HEAD) if word != "TAGS" or is_told]
    head: list[Cell] = [Styled((_WIDE if wide else _HEAD)[number], "bold") for number in shown]
    print("\n".join(table([head, *([row[number] for number in shown] for row in rows)], indent="")))


def _none(registry: Registry) -> str:
    return f"No artifacts yet in {registry.storage.name}."


def _row(version: Version) -> list[str]:
    amount = "" if version.size is None else size(version.size)
    made = "" if version.created is None else short_moment(datetime.fromtimestamp(version.created))
    return [version.reference, version.type, amount, made, _tags(version), made_by(version)]


def _wide(version: Version) -> list[str]:
    files = "" if version.files is None else str(version.files)
    by = [str(version.producer.get(key) or "") for key in ("recipe", "job")]
    first, kind, amount, made, tags, _ = _row(version)
    return [first, kind, amount, files, made, *by, tags, version.digest[:19], clean(version.path)]


def _tags(version: Version) -> str:
    return " ".join((*(["latest"] if version.latest else []), *version.tags))


def _iso(created: float | None) -> str | None:
    return None if created is None else datetime.fromtimestamp(created, timezone.utc).isoformat(timespec="seconds")
