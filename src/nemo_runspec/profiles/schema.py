"""`env schema`: the JSON Schema of an env file, derived from the field declarations, for editors."""

from __future__ import annotations

from typing import Any

from nemo_runspec.backends import find_backend, known_executors
from nemo_runspec.field import TYPES, Field
from nemo_runspec.profiles.executor import DEFAULT_EXECUTOR
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.profiles.system import SYSTEM_SECTIONS

_REFERENCE = {"type": "string", "pattern": r"\$\{oc\.env:"}


def env_schema() -> dict[str, Any]:
    """A draft 2020-12 schema: system sections by name, any other table a profile of one of the executors."""
    everything: dict[str, Any] = {"extends": {"type": "string", "description": "Parent profile."}}
    executors = [name for name in known_executors() if find_backend(name)]
    for executor in executors:
        for field in fields_of(executor).fields.values():
            for spelling in (field.name, *field.aliases):
                everything.setdefault(spelling, _property(field, spelling))
    everything["executor"] = {"enum": executors, "default": DEFAULT_EXECUTOR, "description": "Backend."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "nemotron env.toml",
        "type": "object",
        "properties": {name: _section(fields) for name, fields in SYSTEM_SECTIONS.items()},
        "additionalProperties": {"$ref": "#/$defs/profile"},
        "$defs": {
            "profile": {"type": "object", "properties": everything, "additionalProperties": False},
        },
    }


def _section(fields: tuple[Field, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {f.name: _property(f, f.name) for f in fields},
        "additionalProperties": False,
    }


def _property(field: Field, spelling: str) -> dict[str, Any]:
    schema: dict[str, Any] = dict(TYPES[field.type].schema)
    if field.choices:
        schema["enum"] = list(field.choices)
    described = field.help if spelling == field.name else f"Alias of {field.name}. {field.help}"
    result: dict[str, Any] = schema if schema.get("type") == "string" else {"anyOf": [schema, _REFERENCE]}
    result["description"] = described
    if field.default is not None:
        result["default"] = field.default
    return result
