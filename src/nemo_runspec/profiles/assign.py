"""`key=value` words as changes of a section of an env file: read by the type that the key is declared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nemo_runspec.errors import Code, UserError, did_you_mean
from nemo_runspec.field import Field, problem_with
from nemo_runspec.profiles.fieldset import fields_of, owners_of
from nemo_runspec.profiles.interpolate import retype
from nemo_runspec.profiles.profile import one_or_all
from nemo_runspec.profiles.system import SYSTEM_SECTIONS
from nemo_runspec.secret_names import holds_secret
from nemo_runspec.toml import KeyPath, parse_toml

FieldsByKey = Mapping[str, Field]


def keys_of(section: str, executor: str) -> FieldsByKey:
    """Every spelling of the keys that a section may have → its declaration.

    Args:
        executor: that a profile of this name is for.
    """
    if section in SYSTEM_SECTIONS:
        return {field.name: field for field in SYSTEM_SECTIONS[section]}
    fields = fields_of(executor)
    return {spelling: fields.fields[name] for spelling, name in fields.spellings.items()}


def read_changes(section: str, executor: str, written: Iterable[str], words: Iterable[str]) -> dict[KeyPath, Any]:
    """What `key=value` words set: path of a key below the section → its value.

    Args:
        executor: that the section's profile is for.
        written: keys that the section has, in their spelling there.

    Raises:
        UserError: no `key=value`, an unknown key, a value of a wrong type, a secret; all of them at once.
    """
    keys, written = keys_of(section, executor), tuple(written)
    changes: dict[KeyPath, Any] = {}
    problems: list[UserError] = []
    for word in words:
        try:
            name, equals, text = word.partition("=")
            if not equals:
                raise UserError(f"'{word}' sets nothing", remedy=f"{word}=VALUE")
            path = key_path(name, section, executor, written)
            changes[path] = _value(keys[path[0]], path, text)
        except UserError as error:
            problems.append(error)
    if problems:
        raise one_or_all(f"[{section}] would have", problems)
    return changes


def key_path(name: str, section: str, executor: str, written: Iterable[str]) -> KeyPath:
    """The path of a key, dotted into a table of the section; in the spelling that the section has already.

    Raises:
        UserError: no key of such a section.
    """
    keys = keys_of(section, executor)
    first, *inner = name.split(".")
    if first not in keys:
        raise _unknown(first, section, executor, keys)
    declared = keys[first]
    if inner and not (declared.type.startswith("table") and all(inner)):
        raise UserError(f"{name}: {first} is no table of keys", remedy=f"{first}=…", key=declared.name)
    known = next((key for key in written if key in keys and keys[key] is declared), declared.name)
    return (known, *inner)


def _unknown(key: str, section: str, executor: str, keys: FieldsByKey) -> UserError:
    owners = () if section in SYSTEM_SECTIONS else owners_of(key)
    if owners:
        what = f"{key} is a key of {' and '.join(owners)}, and '{section}' is a profile for '{executor}'"
        return UserError(what, remedy=f"its keys: nemotron env fields {executor}", code=Code.UNKNOWN_KEY)
    listed = f"keys of [{section}]: {', '.join(keys)}" if section in SYSTEM_SECTIONS else None
    remedy = did_you_mean(key, keys) or listed or f"its keys: nemotron env fields {executor}"
    return UserError(f"unknown key '{key}'", remedy=remedy, code=Code.UNKNOWN_KEY)


def _value(declared: Field, path: KeyPath, text: str) -> Any:
    """The value that a text stands for.

    Raises:
        UserError: it is of a wrong type, or a secret, which belongs in no file.
    """
    name = ".".join(path)
    value = _inner(declared, text) if len(path) > 1 else _read(declared.type, text)
    if holds_secret(path[-1], value) or (declared.secret and not str(value).startswith("${")):
        raise UserError(
            f"{name} is a secret, which belongs in no file",
            remedy=f"put it into the environment, and write: {name}='${{oc.env:{path[-1].upper()}}}'",
            key=declared.name,
        )
    whole = value
    for key in reversed(path[1:]):
        whole = {key: whole}
    problem = problem_with(declared, whole)
    if problem and not (isinstance(value, str) and "${" in value):
        example = f"; write {name}='[\"{text}\"]'" if declared.type.startswith("list") else ""
        raise UserError(f"{name} {problem}", remedy=f"{declared.help}{example}", key=declared.name)
    return value


def _read(kind: str, text: str) -> Any:
    """Text is itself; a list or a table is what TOML makes of it, or YAML, which needs no quotes in it."""
    structured = text[:1] in ("[", "{") and any(word in kind for word in ("list", "table"))
    return _structure(text) if structured else retype(text, kind)


def _structure(text: str) -> Any:
    import yaml

    try:
        return parse_toml(f"x = {text}", "it")["x"]
    except UserError:
        pass
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise UserError(f"{text} is no list and no table", remedy="""such as '["/data:/data"]'""") from None


def _inner(declared: Field, text: str) -> Any:
    """A value of a table: a variable's is text; others may be numbers too."""
    if declared.name == "env_vars" or declared.type == "table[str]":
        return text
    return _structure(text) if text[:1] in ("[", "{") else retype(retype(text, "number"), "bool|str")
