"""The text of an `env.toml` with a section more or less, or keys of one set: all else, comments too, stays as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.profiles.system import SYSTEM_SECTIONS
from nemo_runspec.toml import KeyPath, as_toml, key_as_toml, key_lines, parse_toml, split_lines

_BY_HAND = "edit it by hand"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def check_name(name: str) -> None:
    """Raises `UserError` for what is no name of a profile."""
    if name in SYSTEM_SECTIONS:
        raise UserError(f"'{name}' is the name of a system section, not of a profile")
    if not _NAME.fullmatch(name):
        raise UserError(f"'{name}' is no name of a profile", remedy="letters, digits, - and _")


def section_text(name: str, values: Mapping[str, Any]) -> str:
    """A section as it stands in a file, a key per line."""
    return "\n".join((f"[{name}]", *(f"{key_as_toml(key)} = {as_toml(value)}" for key, value in values.items()), ""))


def with_section(text: str, shown: str, name: str, section: str) -> str:
    """A file's text with a section, in the place of the one that has this name, else at its end.

    Args:
        shown: how the file is named to a person.

    Raises:
        UserError: it is no TOML, or is written so that the section cannot be replaced by itself.
    """
    before = parse_toml(text, shown)
    begin = f"{text.rstrip()}\n\n" if text.strip() else ""
    made = _replaced(text, name, section) if name in before else f"{begin}{section}"
    expected = {**before, **parse_toml(section, shown)}
    if parse_toml(made, shown) != expected:
        raise UserError(f"[{name}] of {shown} cannot be replaced by itself", where=shown, remedy=_BY_HAND)
    return made


def with_keys(text: str, shown: str, name: str, changes: Mapping[KeyPath, Any]) -> str:
    """A file's text with keys of a section set; the section is put at its end where there is none.

    Args:
        shown: how the file is named to a person.
        changes: path of a key below the section → its value, None to take it out.

    Raises:
        UserError: it is no TOML, or is written so that the keys cannot be set by themselves.
    """
    before = parse_toml(text, shown)
    values = _changed(before.get(name, {}), changes)
    if name not in before:
        return with_section(text, shown, name, section_text(name, values))
    made = _spliced(text, name, lambda section: _section_with(section, name, changes))
    if parse_toml(made, shown) != {**before, name: values}:
        raise UserError(f"[{name}] of {shown} is written so that it cannot be changed by itself", remedy=_BY_HAND)
    return made


def without_section(text: str, shown: str, name: str) -> str:
    """A file's text without a section, and without the comments right above its header.

    Raises:
        UserError: it is no TOML, or is written so that the section cannot be taken out by itself.
    """
    before = parse_toml(text, shown)
    made = _spliced(text, name, lambda section: "", above=True)
    if parse_toml(made, shown) != {key: value for key, value in before.items() if key != name}:
        raise UserError(f"[{name}] of {shown} cannot be taken out by itself", where=shown, remedy=_BY_HAND)
    return made


def _changed(values: Mapping[str, Any], changes: Mapping[KeyPath, Any]) -> dict[str, Any]:
    """The values of a section with keys set, in tables of it too."""
    made: dict[str, Any] = deepcopy(dict(values))
    for (*tables, key), value in changes.items():
        inner = made
        for table in tables:
            inner = inner.setdefault(table, {})
        if value is None:
            inner.pop(key, None)
        else:
            inner[key] = value
    return made


def _spliced(text: str, name: str, change: Callable[[str], str], *, above: bool = False) -> str:
    """The text with the lines of a section changed. `above`: and the comments right above its header."""
    lines = split_lines(text)
    numbers = list(_lines_of(text, lines, name))
    if not numbers or numbers != list(range(numbers[0], numbers[-1] + 1)):
        return text
    first, end = numbers[0], numbers[-1] + 1
    while above and first and first - 1 not in _head(lines) and _is_comment(lines[first - 1]):
        first -= 1
    while above and end < len(lines) and not lines[end].strip():
        end += 1
    section = change("\n".join([*lines[first:end], ""]))
    lines[first:end] = section.rstrip("\n").split("\n") if section else []
    return "\n".join(lines).rstrip("\n") + "\n"


def _is_comment(line: str) -> bool:
    """True if a line is a comment of what follows, and no headline of all that does."""
    return line.lstrip().startswith("#") and not line.lstrip("# ").startswith("---")


def _head(lines: list[str]) -> range:
    """The numbers of the comments that a file begins with."""
    return range(next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines)))


def _section_with(section: str, name: str, changes: Mapping[KeyPath, Any]) -> str:
    """The lines of a section, changed: keys that are there where they are, new ones behind the last."""
    import tomlkit

    document = tomlkit.parse(section)
    table: Any = document[name]
    new: dict[str, Any] = {}
    for (key, *inner), value in changes.items():
        if key in new or key not in table:
            new |= _changed(new, {(key, *inner): value})
        elif inner and isinstance(table[key], tomlkit.items.Table):
            _set(table[key], inner, value)
        else:
            whole = _changed({key: table[key].unwrap()}, {(key, *inner): value})
            _set(table, [key], whole.get(key))
    return _behind_keys(tomlkit.dumps(document), [f"{key_as_toml(k)} = {as_toml(v)}" for k, v in new.items()])


def _set(table: Any, path: list[str], value: Any) -> None:
    import tomlkit

    for key in path[:-1]:
        table = table[key] if key in table else table.setdefault(key, tomlkit.inline_table())
    if value is not None:
        table[path[-1]] = tomlkit.parse(f"x = {as_toml(value)}")["x"]
    elif path[-1] in table:
        del table[path[-1]]


def _behind_keys(section: str, new: list[str]) -> str:
    """A section with lines behind its last key, before the tables in it that have headers."""
    lines = section.rstrip("\n").split("\n")
    headers = sorted(line - 1 for line in key_lines(section).values() if lines[line - 1].lstrip().startswith("["))
    end = _end_of(lines, headers[0], headers[1] if len(headers) > 1 else len(lines))
    return "\n".join([*lines[:end], *new, *lines[end:], ""])


def _replaced(text: str, name: str, section: str) -> str:
    """The lines of a section, with the tables in it, exchanged. Comments right above the next header are its own."""
    lines = split_lines(text)
    numbers = list(_lines_of(text, lines, name))
    if not numbers:
        return text
    kept = [line for number, line in enumerate(lines) if number not in numbers]
    kept[numbers[0] : numbers[0]] = section.rstrip("\n").split("\n")
    return "\n".join(kept).rstrip("\n") + "\n"


def _lines_of(text: str, lines: list[str], name: str) -> Iterable[int]:
    """The numbers of its lines, counted from 0."""
    headers = {
        line - 1: path for path, line in key_lines(text).items() if lines[line - 1].lstrip().startswith("[") and path
    }
    others = [line for line, path in headers.items() if path[0] != name]
    end = 0
    for start in sorted(line for line, path in headers.items() if path[0] == name):
        if start >= end:  # not in what was found already
            end = min((line for line in others if line > start), default=len(lines))
            yield from range(start, _end_of(lines, start, end))


def _end_of(lines: list[str], start: int, end: int) -> int:
    """Where what belongs to a section ends, that goes up to the next header."""
    while start + 1 < end < len(lines) and _is_idle(lines[end - 1]):
        end -= 1
    return end


def _is_idle(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")
