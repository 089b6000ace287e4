"""A section put into the text of an `env.toml`: whatever else the file says, its comments too, stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.profiles.system import SYSTEM_SECTIONS
from nemo_runspec.toml import as_toml, key_lines, parse_toml, split_lines

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def check_name(name: str) -> None:
    """Raises `UserError` for what is no name of a profile."""
    if name in SYSTEM_SECTIONS:
        raise UserError(f"'{name}' is the name of a system section, not of a profile")
    if not _NAME.fullmatch(name):
        raise UserError(f"'{name}' is no name of a profile", remedy="letters, digits, - and _")


def section_text(name: str, values: Mapping[str, Any]) -> str:
    """A section as it stands in a file, a key per line."""
    return "\n".join((f"[{name}]", *(f"{key} = {as_toml(value)}" for key, value in values.items()), ""))


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
        raise UserError(f"[{name}] of {shown} cannot be replaced by itself", where=shown, remedy="edit it by hand")
    return made


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
