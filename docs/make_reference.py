"""Writes docs/profiles-reference.md out of the field declarations. `--check` only says whether it is up to date."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from nemo_runspec.backends import BUILTIN, get_backend
from nemo_runspec.field import TYPES, Field
from nemo_runspec.profiles.common import COMMON
from nemo_runspec.profiles.system import SYSTEM_SECTIONS

TARGET = Path(__file__).with_name("profiles-reference.md")
_HEAD = "| key | type | default | meaning |\n|---|---|---|---|"


def reference() -> str:
    """The whole page."""
    parts = [
        "# Every key of `env.toml`",
        "Made by `python docs/make_reference.py` from the declarations the program itself uses. "
        "How profiles work is told in [profiles.md](profiles.md).",
        "## Keys of every executor",
        _table(COMMON),
    ]
    for name in BUILTIN:
        fields = get_backend(name).fields
        parts += [f'## `executor = "{name}"`', _table(fields) if fields else "No keys beyond the common ones."]
    for name, fields in SYSTEM_SECTIONS.items():
        parts += [f"## `[{name}]`", _table(fields)]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """0 where the page is up to date or has been written, 1 where `--check` found it stale."""
    text = reference()
    if "--check" in sys.argv:
        return 0 if TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


def _table(fields: tuple[Field, ...]) -> str:
    return "\n".join([_HEAD, *(_row(field) for field in fields)])


def _row(field: Field) -> str:
    names = " or ".join(f"`{name}`" for name in (field.name, *field.aliases))
    kind = " or ".join(f"`{c}`" for c in field.choices) if field.choices else TYPES[field.type].title
    return f"| {names} | {_cell(kind)} | {_default(field)} | {_cell(field.help)} |"


def _default(field: Field) -> str:
    if field.required:
        return "required"
    return "" if field.default in (None, "", [], {}) else f"`{_plain(field.default)}`"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
