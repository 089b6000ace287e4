"""The types of artifacts, as `steps/types.toml` of each recipe root declares them: what may be used for what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nemo_runspec.catalog import STEPS, recipe_roots
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.source import display_path
from nemo_runspec.toml import key_lines, read_toml

FILE = "types.toml"


@dataclass(frozen=True)
class Conversion:
    """A step that makes another type of this one.

    Args:
        type: what it makes.
        step: the step's identifier, `convert/megatron_to_hf`.
    """

    type: str
    step: str


@dataclass(frozen=True)
class ArtifactType:
    """One type.

    Args:
        name: as steps name it, `packed_parquet`.
        description: one sentence.
        layout: what lies at its path, in words.
        is_a: the types that it may be used for, beside itself.
        convert_to: what a step makes of it.
        check: the checker's name; '' for that of a type that it is, if there is one.
        where: where it is declared, `file:line`.
    """

    name: str
    description: str = ""
    layout: str = ""
    is_a: tuple[str, ...] = ()
    convert_to: tuple[Conversion, ...] = ()
    check: str = ""
    where: str = ""


class Types:
    """All types there are.

    Args:
        types: every type once.

    Raises:
        UserError: a type `is_a` one that nobody declares, or in a circle.
    """

    def __init__(self, types: Iterable[ArtifactType]) -> None:
        self._types = {t.name: t for t in types}
        for declared in self._types.values():
            for name in (*declared.is_a, *(c.type for c in declared.convert_to)):
                if name not in self._types:
                    remedy = did_you_mean(name, self._types) or "declare it"
                    what = f"[{declared.name}] names an unknown type '{name}'"
                    raise UserError(what, where=declared.where, remedy=remedy)
        self._ancestors = {name: self._found_ancestors(name) for name in self._types}
        self._refuse_circle()

    @staticmethod
    def load(roots: Iterable[Path] | None = None) -> Types:
        """The types of the recipe roots, strongest first; a stronger root's table is laid over a weaker one's.

        Raises:
            UserError: a file that is not TOML, an unknown key, an unknown type, a circle.
        """
        tables: dict[str, tuple[dict[str, Any], str]] = {}
        for root in reversed([*(recipe_roots() if roots is None else roots)]):
            for name, (table, where) in _tables(root / STEPS / FILE).items():
                below = tables[name][0] if name in tables else {}
                tables[name] = ({**below, **table}, where)
        return Types(_type(name, table, where) for name, (table, where) in tables.items())

    def names(self) -> list[str]:
        """Every type's name, sorted."""
        return sorted(self._types)

    def __contains__(self, name: str) -> bool:
        return name in self._types

    def get(self, name: str) -> ArtifactType:
        """The type of that name.

        Raises:
            UserError: there is none; with a suggestion.
        """
        if name not in self._types:
            remedy = did_you_mean(name, self._types) or f"types: {', '.join(self.names())}"
            raise UserError(f"no type '{name}'", remedy=remedy)
        return self._types[name]

    def accepts(self, consumer: str, producer: str) -> bool:
        """True if what is of the producer's type may be used where the consumer's is wanted.

        A type that nobody declares is accepted as itself alone.
        """
        return consumer == producer or consumer in self.ancestors(producer)

    def ancestors(self, name: str) -> tuple[str, ...]:
        """The types that it may be used for beside itself, nearest first. Empty for one that nobody declares."""
        return self._ancestors.get(name, ())

    def subtypes(self, name: str) -> tuple[str, ...]:
        """The types that may be used where it is wanted, beside itself, sorted."""
        return self._below.get(name, ())

    def checker(self, name: str) -> str:
        """The name of the checker that looks at a path of that type, '' for none."""
        line = (name, *self.ancestors(name))
        return next((self._types[n].check for n in line if n in self._types and self._types[n].check), "")

    @cached_property
    def _below(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for name in self.names():
            for ancestor in self.ancestors(name):
                found.setdefault(ancestor, []).append(name)
        return {name: tuple(names) for name, names in found.items()}

    def _found_ancestors(self, name: str) -> tuple[str, ...]:
        found = dict.fromkeys(self._types[name].is_a)
        for ancestor in (line := list(found)):
            further = [a for a in self._types[ancestor].is_a if a not in found]
            found.update(dict.fromkeys(further))
            line += further
        return tuple(found)

    def _refuse_circle(self) -> None:
        for name, ancestors in self._ancestors.items():
            if name in ancestors:
                circle = [name, *(a for a in ancestors if a != name and name in self._ancestors[a])]
                raise UserError(f"types that are each other: {', '.join(circle)}", where=self._types[name].where)


_KEYS = ("description", "layout", "is_a", "convert_to", "check")


def _tables(file: Path) -> dict[str, tuple[dict[str, Any], str]]:
    """Type → its table and place. Empty where there is no file."""
    if not file.is_file():
        return {}
    shown = display_path(file)
    document, text = read_toml(file, shown)
    lines = key_lines(text)
    found = {}
    for name, table in document.items():
        line = lines.get((name,))
        where = f"{shown}:{line}" if line else shown
        if not isinstance(table, dict):
            raise UserError(f"{name} must be a table: a type", where=where, remedy=f"write [{name}]")
        found[name] = (table, where)
        for key in table:
            if key not in _KEYS:
                at = lines.get((name, key))
                place = f"{shown}:{at}" if at else where
                raise UserError(f"unknown key [{name}] {key}", where=place, remedy=did_you_mean(key, _KEYS))
    return found


def _type(name: str, table: dict[str, Any], where: str) -> ArtifactType:
    parents = table.get("is_a", [])
    parents = [parents] if isinstance(parents, str) else parents
    words = {key: table.get(key, "") for key in ("description", "layout", "check")}
    wrong = [key for key, value in words.items() if not isinstance(value, str)]
    if wrong:
        raise UserError(f"[{name}] {wrong[0]} must be a string", where=where)
    if not isinstance(parents, list) or not all(isinstance(p, str) for p in parents):
        raise UserError(f"[{name}] is_a must be a type, or a list of types", where=where)
    return ArtifactType(
        name,
        is_a=tuple(parents),
        convert_to=_conversions(name, table.get("convert_to", []), where),
        where=where,
        **words,
    )


def _conversions(name: str, value: Any, where: str) -> tuple[Conversion, ...]:
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, dict) or [*map(type, map(item.get, ("type", "step")))] != [str, str] or len(item) > 2:
            raise UserError(f"[{name}] convert_to must be a list of {{ type = …, step = … }}", where=where)
    return tuple(Conversion(**item) for item in items)
