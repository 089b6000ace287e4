"""The text of an env file made of a tree of sections, with the comments of the YAML that the tree comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_runspec.profiles.files import SCHEMA_LINE
from nemo_runspec.profiles.yaml_comments import Comment, Comments
from nemo_runspec.toml import KeyPath, as_toml, key_as_toml

_WIDTH = 100
"""Characters of a line above which a list is written an item a line, and a table as one with a header."""


def env_text(sections: Mapping[str, Any], comments: Comments) -> str:
    """An env file's text.

    Args:
        sections: name → table, in the order of the file. A key that is null is left out.
        comments: by path, which begins with the section.
    """
    lines = [SCHEMA_LINE, *comments.head]
    for name, values in sections.items():
        lines += ["", *_table((name,), _without_null(values), comments)]
    return "\n".join(lines) + "\n"


def _table(path: KeyPath, values: Mapping[str, Any], comments: Comments) -> Iterator[str]:
    """A table with its header: keys first, then the tables in it that need headers of their own."""
    header = f"[{'.'.join(map(key_as_toml, path))}]"
    yield from _with(comments.of(*path), header)
    inner = {key: value for key, value in values.items() if _needs_header((*path, key), value, comments)}
    for key, value in values.items():
        if key not in inner:
            yield from _pair((*path, key), value, comments)
    yield from comments.of(*path).below
    for key, value in inner.items():
        yield ""
        yield from _table((*path, key), value, comments)


def _pair(path: KeyPath, value: Any, comments: Comments) -> Iterator[str]:
    """A key and its value on one line; a long list, or one with comments in it, an item a line."""
    said, begin = comments.of(*path), f"{key_as_toml(path[-1])} = "
    if not isinstance(value, list) or not (_is_long(path, value) or _has_inside(path, comments)):
        yield from _with(said, begin + as_toml(value))
        return
    yield from _with(said, f"{begin}[")
    for number, item in enumerate(value):
        yield from (f"    {line}" for line in _with(comments.of(*path, str(number)), f"{as_toml(item)},"))
    yield "]"


def _with(said: Comment, line: str) -> Iterator[str]:
    yield from said.above
    yield f"{line}  {said.beside}" if said.beside else line


def _needs_header(path: KeyPath, value: Any, comments: Comments) -> bool:
    return isinstance(value, Mapping) and (_is_long(path, value) or _has_inside(path, comments))


def _is_long(path: KeyPath, value: Any) -> bool:
    return len(as_toml(value)) + len(path[-1]) > _WIDTH


def _has_inside(path: KeyPath, comments: Comments) -> bool:
    """True if there are comments in a table or a list."""
    return any(at[: len(path)] == path and len(at) > len(path) for at in comments.at)


def _without_null(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_null(below) for key, below in value.items() if below is not None}
    return [_without_null(each) for each in value if each is not None] if isinstance(value, list) else value
