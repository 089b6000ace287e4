"""`nemotron artifacts show`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from nemo_runspec.text import clean, count, size
from nemotron.cli.commands.artifacts.listing import as_data
from nemotron.cli.commands.artifacts.opening import opened, tell_problems
from nemotron.cli.forms import CSV, TABLE, WIDE, as_csv, print_data
from nemotron.cli.tables import Styled
from nemotron.cli.text import table

if TYPE_CHECKING:
    from nemo_runspec.artifacts.registry import Registry, Version

_SHOWN = 8
"""Versions made from this one that are named."""


def call(reference: str, profile: str | None, root: str | None, form: str) -> int:
    """Prints all that is known of a version."""
    registry = opened(profile, root)
    version = registry.get(reference)
    tell_problems(registry)
    if form in (TABLE, WIDE):
        print("\n".join(table([[Styled(key, "bold"), text] for key, text in _rows(registry, version) if text])))
    elif form == CSV:
        from nemotron.cli.commands.artifacts.listing import flat

        print(as_csv([flat(version)]), end="")
    else:
        made = [other.reference for other in registry.made_from(version)]
        print_data({**as_data(version), "made_from_it": made}, form)
    return 0


def _rows(registry: Registry, version: Version) -> Iterator[tuple[str, str]]:
    yield "artifact", version.reference + (" (latest)" if version.latest and version.is_numbered else "")
    yield "type", version.type
    yield "tags", " ".join(version.tags)
    yield "note", clean(version.note)
    there = registry.storage.has(version.path)
    yield "path", clean(version.path) + (" (its data are gone)" if there is False else "")
    files = "" if version.files is None else f", {count(version.files, 'file')}"
    yield "size", "" if version.size is None else f"{size(version.size)}{files}"
    yield "digest", version.digest
    yield (
        "made",
        datetime.fromtimestamp(version.created).astimezone().strftime("%Y-%m-%d %H:%M %Z")
        if (version.created is not None)
        else "nothing is known of how: no manifest was written",
    )
    yield from _producer(version)
    for known in version.inputs:
        yield f"from {known.get('input', '')}", input_text(known)
    made = [other.reference for other in registry.made_from(version)]
    more = f" and {len(made) - _SHOWN} more" if len(made) > _SHOWN else ""
    yield "made from it", ", ".join(made[:_SHOWN]) + more


def _producer(version: Version) -> Iterator[tuple[str, str]]:
    known = version.producer
    config = f" -c {known['config']}" if known.get("config") else ""
    yield "recipe", f"{known['recipe']}{config}" if known.get("recipe") else ""
    yield "overrides", clean(" ".join(known.get("overrides") or ()))
    yield "job", str(known.get("job", ""))
    yield "profile", f"{known['profile']} ({known.get('executor', '')})" if known.get("profile") else ""
    yield "code", code_text(version)
    yield "added by", f"{known['user']} on {known.get('host', '')}" if known.get("user") else ""


def code_text(version: Version) -> str:
    """The commit and digests of its code, in short."""
    code = version.producer.get("code") or {}
    words = [f"commit {code['commit'][:12]}" if code.get("commit") else ""]
    words += [f"{key} {code[key][:12]}" for key in ("package", "bundle") if code.get(key)]
    return ", ".join(filter(None, words)) + (" (with changes of its own)" if code.get("changed") else "")


def input_text(known: dict[str, object] | object) -> str:
    """An input: the version it was, else its path."""
    assert isinstance(known, dict)
    if known.get("version") is not None:
        return f"{known.get('name')}:v{known['version']}"
    return clean(str(known.get("path", "")))
