"""TOML reading with places: the standard parser for values, and the line on which each key was written."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

from nemo_runspec.errors import UserError

KeyPath = tuple[str, ...]

_OPEN = "[{"
_CLOSE = "]}"
_QUOTES = ('"""', "'''", '"', "'")


def read_toml(path: Path, shown: str) -> tuple[dict[str, Any], str]:
    """The parsed document and its text.

    Raises:
        UserError: the file cannot be read, is not UTF-8 or is not TOML; with file and line.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read {shown}: {error.strerror}", where=shown) from None
    except UnicodeDecodeError as error:
        raise UserError(f"{shown} is not UTF-8 text (byte {error.start})", where=shown) from None
    return parse_toml(text, shown), text


def parse_toml(text: str, shown: str, *, first_line: int = 1) -> dict[str, Any]:
    """Parses a document. `first_line` is where it starts in the file that `shown` names.

    Raises:
        UserError: not TOML, with file and line.
    """
    try:
        document: dict[str, Any] = tomllib.loads(text.replace("\r\n", "\n"))
        return document
    except tomllib.TOMLDecodeError as error:
        message, line = _split_position(str(error), text)
        raise UserError(
            f"not valid TOML: {message}",
            where=f"{shown}:{line + first_line - 1}",
            remedy=_toml_hint(text, line),
        ) from None
    except (RecursionError, ValueError) as error:
        raise UserError(f"not valid TOML: {error or 'nested too deeply'}", where=shown) from None


def key_lines(text: str, *, elements: bool = False) -> dict[KeyPath, int]:
    """The 1-based line of every table header and key of a valid document, by its full path.

    Keys inside inline tables get the line of the key that holds the table. The later of two places wins, so an
    array of tables points at its last element.

    Args:
        elements: the keys of an array of tables have the number of their element before them, from `0`.
    """
    lines: dict[KeyPath, int] = {}
    seen: Counter[KeyPath] = Counter()
    table: KeyPath = ()
    pending: str | None = None
    depth = 0
    for number, raw in enumerate(split_lines(text), start=1):
        if pending is None and depth == 0:
            stripped = raw.strip()
            if stripped.startswith("["):
                table = _header(stripped)
                lines[table] = number
                if elements and stripped.startswith("[["):
                    seen[table] += 1
                    table = (*table, str(seen[table] - 1))
                    lines[table] = number
                continue
            key, rest = _split_key(raw)
            if key is None:
                continue
            for end in range(1, len(key) + 1):
                path = table + key[:end]
                lines[path] = number
            raw = rest
        pending, depth = _scan(raw, pending, depth)
    return lines


def split_lines(text: str) -> list[str]:
    """The lines as TOML and editors count them, and what comes after the last line feed."""
    return text.replace("\r\n", "\n").split("\n")


def _split_position(message: str, text: str) -> tuple[str, int]:
    head, _, tail = message.rpartition(" (at ")
    if tail.startswith("line "):
        return head, int(tail[5:].split(",")[0])
    return head or message, max(1, text.count("\n"))


def _toml_hint(text: str, line: int) -> str | None:
    rows = split_lines(text)
    row = rows[line - 1] if 0 < line <= len(rows) else ""
    key, rest = _split_key(row)
    value = rest.split("#")[0].strip()
    if key and value and value[0] not in "\"'[{" and "=" not in value:
        return f'text values need quotes: {".".join(key)} = "{value}"'
    return None


def _header(row: str) -> KeyPath:
    inner = row.lstrip("[")
    return tuple(_key_parts(inner)[0])


def _split_key(row: str) -> tuple[KeyPath | None, str]:
    parts, end = _key_parts(row)
    rest = row[end:].lstrip()
    if not parts or not rest.startswith("="):
        return None, ""
    return tuple(parts), rest[1:]


def _key_parts(row: str) -> tuple[list[str], int]:
    """The dotted key a row starts with, and where it ends."""
    parts: list[str] = []
    at = 0
    while at < len(row):
        while at < len(row) and row[at] in " \t":
            at += 1
        part, at = _one_key(row, at)
        if part is None:
            break
        parts.append(part)
        while at < len(row) and row[at] in " \t":
            at += 1
        if at >= len(row) or row[at] != ".":
            break
        at += 1
    return parts, at


def _one_key(row: str, at: int) -> tuple[str | None, int]:
    if at < len(row) and row[at] in "\"'":
        quote = row[at]
        end = at + 1
        while end < len(row) and row[end] != quote:
            end += 2 if row[end] == "\\" and quote == '"' else 1
        literal = row[at : end + 1]
        try:
            return str(next(iter(tomllib.loads(f"{literal} = 1")))), end + 1
        except tomllib.TOMLDecodeError:
            return row[at + 1 : end], end + 1
    end = at
    while end < len(row) and (row[end].isalnum() or row[end] in "-_"):
        end += 1
    return (row[at:end] or None), end


def _scan(row: str, pending: str | None, depth: int) -> tuple[str | None, int]:
    """Follows strings and brackets over one row: the multi-line quote still open, and the bracket depth."""
    at = 0
    while at < len(row):
        if pending is not None:
            if pending == '"""' and row[at] == "\\":
                at += 2
                continue
            if row.startswith(pending, at):
                at = _after_quotes(row, at, pending)
                pending = None
            else:
                at += 1
            continue
        if row[at] == "#":
            break
        quote = next((q for q in _QUOTES if row.startswith(q, at)), None)
        if quote is not None:
            at, pending = _skip_string(row, at + len(quote), quote)
            continue
        depth += (row[at] in _OPEN) - (row[at] in _CLOSE)
        at += 1
    return pending, max(depth, 0)


def _skip_string(row: str, at: int, quote: str) -> tuple[int, str | None]:
    escapes = quote.startswith('"')
    while at < len(row):
        if escapes and row[at] == "\\":
            at += 2
        elif row.startswith(quote, at):
            return _after_quotes(row, at, quote), None
        else:
            at += 1
    return at, (quote if len(quote) == 3 else None)


def _after_quotes(row: str, at: int, quote: str) -> int:
    """Where a string goes on after its closing quotes: a long one may have two more of them as its last characters."""
    end = at + len(quote)
    while len(quote) == 3 and end < at + 5 and row.startswith(quote[0], end):
        end += 1
    return end


def as_toml(value: Any) -> str:
    """A value as a file would have it on one line. A string is what JSON makes of it, but for one character."""
    if isinstance(value, Mapping):
        items = ", ".join(f"{key_as_toml(key)} = {as_toml(each)}" for key, each in value.items())
        return f"{{ {items} }}" if items else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(as_toml, value))}]"
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")


def key_as_toml(key: object) -> str:
    """A key, in quotes where it needs them."""
    return str(key) if re.fullmatch(r"[A-Za-z0-9_-]+", str(key)) else as_toml(str(key))
