"""The comments of a YAML file, by the key that each belongs to: PyYAML itself leaves them out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from nemo_runspec.toml import KeyPath

_BREAKS = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""Line breaks as PyYAML counts them (YAML 1.1, 5.4)."""


@dataclass(frozen=True)
class Comment:
    """What is said of one key, each line with its `#`.

    Args:
        above: the lines above it, '' for an empty one between them.
        beside: what stands behind its value.
        below: the last lines of a table, behind all that is in it.
    """

    above: tuple[str, ...] = ()
    beside: str = ""
    below: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comments:
    """All comments of a file.

    Args:
        head: the lines that begin the file, up to an empty one.
        at: path of a key, or of an item by its number → what is said of it.
    """

    head: tuple[str, ...] = ()
    at: dict[KeyPath, Comment] = field(default_factory=dict)

    def of(self, *path: str) -> Comment:
        """What is said of a key."""
        return self.at.get(path, Comment())

    def over(self, others: Comments) -> Comments:
        """These, and what others say of keys that these say nothing of."""
        return Comments(self.head or others.head, {**others.at, **self.at})


def read_comments(text: str) -> Comments:
    """The comments of a valid YAML document."""
    import yaml

    lines = _BREAKS.split(text)
    if not lines[-1]:
        lines.pop()
    head = _head(lines)
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    found = {path: comment for path, comment in _walk(node, lines, (), len(head)) if comment != Comment()}
    return Comments(tuple(line.strip() for line in head), found)


def _head(lines: list[str]) -> list[str]:
    """The first lines, where an empty one ends them: else they belong to the first key."""
    head = list(takewhile(_is_comment, lines))
    return [] if lines[len(head) :] and lines[len(head)].strip() else head


def _walk(node: Any, lines: list[str], path: KeyPath, after: int) -> Iterator[tuple[KeyPath, Comment]]:
    """Keys and items in the order of the file; none of what is written on one line with others.

    Args:
        after: the number of the first line that may be about one of them.
    """
    for name, start, value in _children(node):
        above = _above(lines, start, after)
        yield (*path, name), Comment(above, _comment_behind(lines, start, value), _comment_below(lines, value))
        yield from _walk(value, lines, (*path, name), start.line + 1)


def _children(node: Any) -> list[tuple[str, Any, Any]]:
    """Name, place and value of what is in a table or a list that is written on lines of its own."""
    from yaml import CollectionNode, MappingNode

    if not isinstance(node, CollectionNode) or node.flow_style:
        return []
    if isinstance(node, MappingNode):
        return [(str(key.value), key.start_mark, value) for key, value in node.value]
    return [(str(number), value.start_mark, value) for number, value in enumerate(node.value)]


def _above(lines: list[str], start: Any, after: int) -> tuple[str, ...]:
    """The comments above a place that stand no further to the right, up to what is none."""
    first = start.line
    while first > after and _is_idle(lines[first - 1], 0, start.column):
        first -= 1
    return _block(lines[first : start.line])


def _comment_below(lines: list[str], node: Any) -> tuple[str, ...]:
    """The comments behind the last key of a table, as far to the right as its keys."""
    first, last = _tail(lines, node)
    return _block(lines[first:last])


def _tail(lines: list[str], node: Any) -> tuple[int, int]:
    """The numbers of the lines behind what is in a value: the first, and the first that belongs to what follows."""
    children = _children(node)
    if not children:
        return node.end_mark.line + 1, node.end_mark.line + 1
    first = last = _tail(lines, children[-1][2])[1]
    while last < len(lines) and _is_idle(lines[last], children[0][1].column, len(lines[last])):
        last += 1
    return first, last


def _is_idle(line: str, least: int, most: int) -> bool:
    """True if a line is empty, or a comment that begins in these columns."""
    return not line.strip() or (_is_comment(line) and least <= len(line) - len(line.lstrip()) <= most)


def _block(lines: list[str]) -> tuple[str, ...]:
    """Lines without the empty ones around them."""
    rows = [row.strip() for row in lines]
    return tuple("\n".join(rows).strip("\n").split("\n")) if any(rows) else ()


def _comment_behind(lines: list[str], start: Any, value: Any) -> str:
    """What stands behind a value that ends on the line that it begins on, or behind the key of a table."""
    from yaml import ScalarNode

    short = isinstance(value, ScalarNode) or value.flow_style
    if short and value.end_mark.line != start.line:
        return ""
    rest = lines[start.line][value.end_mark.column if short else start.column :]
    text = rest if short else rest.partition(":")[2]
    return text.strip() if _is_comment(text) else ""


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")
