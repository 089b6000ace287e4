"""`env schema`: the JSON Schema of an env file, derived from the field declarations, for editors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from nemo_runspec.backends import DEFAULT_EXECUTOR, find_backend, known_executors
from nemo_runspec.field import TYPES, Field
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.profiles.system import SYSTEM_SECTIONS

ID = "urn:nemotron:schema:env.toml"

_REFERENCE = {"type": "string", "pattern": r"\$\{oc\.env:"}


def env_schema() -> dict[str, Any]:
    """A draft 2020-12 schema: system sections by name, any other table a profile of one of the executors."""
    executors = [name for name in known_executors() if find_backend(name)]
    everything: dict[str, Any] = {
        "executor": {"enum": executors, "default": DEFAULT_EXECUTOR, "description": "Backend."},
        "extends": {"type": "string", "description": "Parent profile."},
    }
    for spelling, field in _declared(executors).items():
        everything.setdefault(spelling, _property(field, spelling))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "nemotron env.toml",
        "type": "object",
        "properties": {name: _section(fields) for name, fields in SYSTEM_SECTIONS.items()},
        "additionalProperties": {"$ref": "#/$defs/profile"},
        "$defs": {
            "profile": {"type": "object", "properties": everything, "additionalProperties": False},
        },
    }


def _declared(executors: Iterable[str]) -> dict[str, Field]:
    """Every spelling → its key as the first executor has it, with what the others know of the tables in it."""
    found: dict[str, Field] = {}
    for executor in executors:
        for field in fields_of(executor).fields.values():
            for spelling in (field.name, *field.aliases):
                known = found.get(spelling, field)
                found[spelling] = known if known.inner else replace(known, inner=field.inner, more=field.more)
    return found


def _section(fields: tuple[Field, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {f.name: _property(f, f.name) for f in fields},
        "additionalProperties": False,
    }


def _property(field: Field, spelling: str) -> dict[str, Any]:
    schema = _described(field)
    described = field.help if spelling == field.name else f"Alias of {field.name}. {field.help}"
    result: dict[str, Any] = schema if schema.get("type") == "string" else {"anyOf": [schema, _REFERENCE]}
    result["description"] = described
    if field.default is not None:
        result["default"] = field.default
    return result


def _described(field: Field) -> dict[str, Any]:
    """The schema of a key's values, the tables in them as far as they are declared."""
    schema: dict[str, Any] = dict(TYPES[field.type].schema)
    if field.choices:
        schema["enum"] = list(field.choices)
    if not field.inner:
        return schema
    table = {**_section(field.inner), "additionalProperties": field.more}
    if field.each:
        return {**schema, "additionalProperties": table}
    if schema["type"] != "array":
        return {**schema, **table}
    choices = [each if each["type"] != "object" else table for each in schema["items"].get("anyOf", ())]
    return {**schema, "items": {"anyOf": choices} if choices else table}
