"""A YAML file that a person has written, as plain values and with the line of each.

It is read as configs are: `1e-4` is a number, `10:00:00` a text, and a key that stands there twice is a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_runspec.config.yaml_lines import refuse_bomb
from nemo_runspec.errors import UserError, first_line
from nemo_runspec.regular import read_regular
from nemo_runspec.source import display_path

KeyPlace = tuple[str | int, ...]
"""Where a value stands: keys, and numbers of items."""

_TAG = "tag:yaml.org,2002:"
_READ_AS_TEXT = (f"{_TAG}str", f"{_TAG}timestamp", f"{_TAG}value")
_SCALARS = (f"{_TAG}null", f"{_TAG}bool", f"{_TAG}int", f"{_TAG}float")
_EXPONENT = re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+")
"""Numbers such as `1e-4`, which YAML 1.1 takes for text."""


@dataclass(frozen=True, slots=True)
class Document:
    """What is in a file. `shown`: how the file is named to a person; `lines`: of each value, from 1."""

    value: Any
    shown: str
    lines: Mapping[KeyPlace, int] = field(default_factory=dict)

    def line(self, *place: str | int) -> int | None:
        """The line of a value, or of the nearest above it."""
        return next((line for end in range(len(place), 0, -1) if (line := self.lines.get(place[:end]))), None)

    def where(self, *place: str | int) -> str:
        """`file:line` of a value, or of the nearest above it."""
        known = self.line(*place)
        return f"{self.shown}:{known}" if known else self.shown


def read_document(path: Path, what: str) -> Document:
    """What is in a file. `what`: it is to be, such as `the pipeline`.

    Raises:
        UserError: it cannot be read, is no YAML, or has values that are not plain.
    """
    import yaml

    shown = display_path(path)
    try:
        text = read_regular(path, follow=True).decode("utf-8-sig")
        refuse_bomb(path)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        reader = _Reader(shown)
        value = None if root is None else reader.value(root, ())
    except OSError as error:
        raise UserError(f"cannot read {what}: {error.strerror}", where=shown) from None
    except UnicodeDecodeError:
        raise UserError(f"cannot read {what}: it is not UTF-8", where=shown) from None
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"not valid YAML: {error.problem}", where=f"{shown}{line}") from None
    except RecursionError:
        raise UserError(f"cannot read {what}: it is nested too deeply", where=shown) from None
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"not valid YAML: {first_line(error)}", where=shown) from None
    return Document(value, shown, reader.lines)


class _Reader:
    """Nodes as values. PyYAML's own constructor would make dates and sets, and let a later key win."""

    def __init__(self, shown: str) -> None:
        import yaml

        self.shown = shown
        self.lines: dict[KeyPlace, int] = {}
        self._constructor = yaml.constructor.SafeConstructor()

    def value(self, node: Any, place: KeyPlace) -> Any:
        """The value of a node that stands at a place."""
        self.lines.setdefault(place, node.start_mark.line + 1)
        if node.id == "mapping" and node.tag == f"{_TAG}map":
            return self._table(node, place)
        if node.id == "sequence" and node.tag == f"{_TAG}seq":
            return [self.value(item, (*place, number)) for number, item in enumerate(node.value)]
        if node.id == "scalar" and node.tag in (*_READ_AS_TEXT, *_SCALARS):
            return self._scalar(node)
        tag = node.tag.replace(_TAG, "!!")
        raise UserError(f"no value may be a {tag} here", where=f"{self.shown}:{node.start_mark.line + 1}",
                        remedy="text, a number, true or false, a list or a table")  # fmt: skip

    def _table(self, node: Any, place: KeyPlace) -> dict[Any, Any]:
        self._refuse_twice(node)
        self._constructor.flatten_mapping(node)  # `<<: *other`
        made: dict[Any, Any] = {}
        for key, value in node.value:
            name = self._key(key)
            inner = (*place, name)
            self.lines[inner] = key.start_mark.line + 1
            made[name] = self.value(value, inner)
        return made

    def _key(self, node: Any) -> str:
        if node.id != "scalar":
            raise UserError("a key is text", where=f"{self.shown}:{node.start_mark.line + 1}")
        return str(node.value)

    def _refuse_twice(self, node: Any) -> None:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if key.id == "scalar" and key.value in seen:
                raise UserError(f"'{key.value}' stands there twice, in line {seen[key.value]} too",
                                where=f"{self.shown}:{line}", remedy="leave one of them out")  # fmt: skip
            seen[str(key.value)] = line

    def _scalar(self, node: Any) -> Any:
        if node.tag in _READ_AS_TEXT:
            is_number = not node.style and _EXPONENT.fullmatch(node.value)
            return float(node.value.replace("_", "")) if is_number else node.value
        if ":" in node.value:  # base 60 of YAML 1.1: a time limit is none
            return node.value
        return self._constructor.construct_object(node)
