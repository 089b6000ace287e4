"""All profile keys of all executors, looked up by any spelling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from nemo_runspec.backends import find_backend, get_backend, known_executors
from nemo_runspec.field import Field, defaults_of
from nemo_runspec.profiles.common import COMMON


@dataclass(frozen=True)
class FieldSet:
    """The keys one executor accepts.

    Args:
        executor: its name.
        fields: canonical name → field, common ones first.
        spellings: every accepted spelling → canonical name.
    """

    executor: str
    fields: Mapping[str, Field]
    spellings: Mapping[str, str]

    def canonical(self, key: str) -> str | None:
        """The canonical name of a spelling, or None where this executor does not have it."""
        return self.spellings.get(key)

    def where(self, has: Callable[[Field], bool]) -> tuple[str, ...]:
        """Names of the keys that have a fact, such as `where(lambda key: key.on_s3)`."""
        return tuple(name for name, declared in self.fields.items() if has(declared))

    def defaults(self) -> dict[str, Any]:
        """What a merged profile that sets nothing holds. `extends` is no key of a merged profile."""
        return defaults_of(field for field in self.fields.values() if field.name != "extends")


@cache
def fields_of(executor: str) -> FieldSet:
    """The keys of one executor. Raises `UserError` for an unknown executor."""
    fields = {f.name: f for f in (*COMMON, *get_backend(executor).fields)}
    return FieldSet(executor, fields, _spellings(fields.values()))


@cache
def owners_of(key: str) -> tuple[str, ...]:
    """The executors that accept a key in any spelling."""
    return tuple(name for name in known_executors() if find_backend(name) and fields_of(name).canonical(key))


def _spellings(fields: Iterable[Field]) -> dict[str, str]:
    return {spelling: f.name for f in fields for spelling in (f.name, *f.aliases)}
