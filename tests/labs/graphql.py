"""GraphQL as far as a lab needs it: a client's own document is read, and answered by exactly the fields it asks for.

A field that the lab does not have is an error: so the lab is held against what the real client asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\.\.\.|[A-Za-z_]\w*|-?\d+(?:\.\d+)?|[{}()\[\]:$!=@|]')

Values = Mapping[str, Any]
Object = Mapping[str, Any]
"""A value: `__typename`, and each of its fields: a value, or a function of the field's arguments that gives one."""


@dataclass
class Selection:
    """A field with its selections; a fragment's where `on` says of which type it is, '' for any."""

    name: str
    alias: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    fields: list[Selection] = field(default_factory=list)
    include: Any = True
    on: str | None = None


class NoSuchField(Exception):
    """A document asks for what there is not."""


def answer(document: str, variables: Values, root: Object, kinds: Mapping[str, str]) -> dict[str, Any]:
    """What a document asks for.

    Args:
        root: the query's or mutation's own fields. `kinds`: type → the interface it is one of.

    Raises:
        NoSuchField: a field, a fragment or an argument that there is not.
    """
    reader = _Reader(document)
    operation = reader.document()
    given = {**reader.defaults, **{name: value for name, value in variables.items() if value is not None}}
    return _Projection(reader.fragments, given, kinds).fields(operation, root)


class _Projection:
    def __init__(self, fragments: Mapping[str, Selection], given: Values, kinds: Mapping[str, str]) -> None:
        self._fragments, self._given, self._kinds = fragments, given, kinds

    def fields(self, chosen: list[Selection], value: Object) -> dict[str, Any]:
        """An object with the fields that are chosen."""
        found: dict[str, Any] = {}
        for one in chosen:
            if not self._filled(one.include):
                continue
            if one.on is None and one.name.startswith("..."):
                one = self._fragments[one.name[3:]]
            if one.on is not None:
                kind = str(value.get("__typename"))
                if one.on in ("", kind, self._kinds.get(kind)):
                    found.update(self.fields(one.fields, value))
                continue
            found[one.alias or one.name] = self._field(one, value)
        return found

    def _field(self, one: Selection, value: Object) -> Any:
        if one.name not in value:
            raise NoSuchField(f"{value.get('__typename')} has no field {one.name}")
        found = value[one.name]
        if callable(found):
            resolve: Callable[..., Any] = found
            found = resolve(**{name: self._filled(each) for name, each in one.arguments.items()})
        return self._chosen(one, found)

    def _chosen(self, one: Selection, found: Any) -> Any:
        if isinstance(found, list):
            return [self._chosen(one, each) for each in found]
        if isinstance(found, Mapping):
            if not one.fields:
                raise NoSuchField(f"{one.name} is an object, and nothing of it is chosen")
            return self.fields(one.fields, found)
        if found is not None and one.fields:
            raise NoSuchField(f"{one.name} is no object")
        return found

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str) and value.startswith("$"):
            return self._given.get(value[1:])
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        if isinstance(value, dict):
            return {name: self._filled(each) for name, each in value.items()}
        return value


class _Reader:
    """Reads a document of one operation and its fragments."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0
        self.fragments: dict[str, Selection] = {}
        self.defaults: dict[str, Any] = {}

    def document(self) -> list[Selection]:
        """The selections of its operation."""
        operation: list[Selection] = []
        while self._at < len(self._tokens):
            if self._peek() == "fragment":
                self._next()
                name = self._next()
                self._expect("on")
                kind = self._next()
                self.fragments[name] = Selection(name, fields=self._selections(), on=kind)
                continue
            while self._peek() not in "{(":
                self._next()
            self._variables()
            operation = self._selections()
        return operation

    def _variables(self) -> None:
        if self._peek() != "(":
            return
        self._next()
        while self._peek() != ")":
            self._expect("$")
            name = self._next()
            while self._peek() not in ("$", ")", "="):
                self._next()
            if self._peek() == "=":
                self._next()
                self.defaults[name] = self._value()
        self._next()

    def _selections(self) -> list[Selection]:
        self._expect("{")
        found = []
        while self._peek() != "}":
            found.append(self._selection())
        self._next()
        return found

    def _selection(self) -> Selection:
        name = self._next()
        if name == "...":
            return self._spread()
        one = Selection(name)
        if self._peek() == ":":
            self._next()
            one.alias, one.name = name, self._next()
        if self._peek() == "(":
            self._next()
            one.arguments = self._pairs(")")
        self._directives(one)
        if self._peek() == "{":
            one.fields = self._selections()
        return one

    def _spread(self) -> Selection:
        if self._peek() not in ("on", "{", "@"):
            one = Selection("..." + self._next())
            self._directives(one)
            return one
        one = Selection("...", on="")
        if self._peek() == "on":
            self._next()
            one.on = self._next()
        self._directives(one)
        one.fields = self._selections()
        return one

    def _directives(self, one: Selection) -> None:
        while self._peek() == "@":
            self._next()
            self._expect("include")
            self._expect("(")
            one.include = self._pairs(")")["if"]

    def _pairs(self, end: str) -> dict[str, Any]:
        found = {}
        while self._peek() != end:
            name = self._next()
            self._expect(":")
            found[name] = self._value()
        self._next()
        return found

    def _value(self) -> Any:
        token = self._next()
        if token == "$":
            return "$" + self._next()
        if token == "{":
            return self._pairs("}")
        if token == "[":
            found = []
            while self._peek() != "]":
                found.append(self._value())
            self._next()
            return found
        words = {"true": True, "false": False, "null": None}
        if token in words:
            return words[token]
        return token[1:-1] if token[0] == '"' else int(token) if token.lstrip("-").isdigit() else token

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        self._at += 1
        return str(self._tokens[self._at - 1])

    def _expect(self, token: str) -> None:
        found = self._next()
        assert found == token, f"the document has {found!r} where {token!r} was meant"
