"""The declaration of one key of an execution profile: once, as data.

Help, `env check`, `env schema`, the docs' reference and the executors' arguments are all derived from these
declarations. The declarations themselves stand in `profiles/common.py` and in each backend's `fields.py`. A backend
may declare its keys as the attributes of its target (`key`): then what a plan carries follows from them, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from dataclasses import field as attribute
from functools import cache
from typing import Any, NamedTuple

from nemo_runspec.duration import whole_seconds
from nemo_runspec.topics import OTHER
from nemo_runspec.visible import hidden_in


@dataclass(frozen=True)
class Field:
    """One profile key.

    Args:
        name: the canonical spelling.
        type: a name of `TYPES`.
        help: one sentence, with the unit where there is one.
        default: the value when no layer sets the key; None means "not set".
        required: True where a job cannot be submitted without it.
        aliases: other accepted spellings; they are normalised in every layer before layers are merged.
        choices: the only accepted values, if they are few.
        nemo_run: the argument of NeMo-Run's executor that it fills; None where nemotron itself uses it.
        sbatch: the option of sbatch that it becomes, in snake case; None where it becomes none.
        secret: True where the value itself is a credential and is never shown.
        one_line: True where its text, in lists and tables too, has to stand on one line.
        of_builds: False where it says how training jobs look, which container builds do not take over. The recipe and
            the command line of a build can still set it.
        seconds: True where its text is a length of time, of which a target has the seconds.
        never_sent: why it is no part of what a job is sent with; '' where it is.
        topic: what it is about, a title of `topics` or of one's own.
        in_help: True where the help of every recipe shows it.
        verbatim: True where its text is a shell's, or a variable's name, or goes to a platform as it is: `<in >out` and
            MY_VAR are no placeholders there.
        asks_gpus: True where GPUs are asked for by it.
        of_one_job: True where it says how this one job is run: on the command line it is not meant for the jobs that
            make its inputs.
        of_here: True where its paths are this machine's, wherever the job runs.
        keeps_secrets: True for a table whose keys are variables that the platform sets, of secrets that it keeps.
        on_s3: True where a job that has it needs keys for S3.
        inner: the keys of the table, or of each table in the list.
        each: of each table in the table instead.
        more: whether such a table may have further keys.
    """

    name: str
    type: str
    help: str
    default: Any = None
    required: bool = False
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    nemo_run: str | None = None
    sbatch: str | None = None
    secret: bool = False
    one_line: bool = False
    of_builds: bool = True
    seconds: bool = False
    never_sent: str = ""
    topic: str = OTHER
    in_help: bool = False
    verbatim: bool = False
    asks_gpus: bool = False
    of_one_job: bool = False
    of_here: bool = False
    keeps_secrets: bool = False
    on_s3: bool = False
    inner: tuple[Field, ...] = ()
    each: bool = False
    more: bool = False


@dataclass(frozen=True)
class FieldType:
    """A type a profile key may have: how it is named to a person, checked, and written as JSON Schema."""

    title: str
    accepts: Callable[[Any], bool]
    schema: Mapping[str, Any]


MOST_DIGITS = 15
_MOST = 10**MOST_DIGITS
"""Above it, and below its negative, nothing is counted here; Python itself writes down no number of 5,000 digits."""


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_MOST < value < _MOST


def _is_number(value: Any) -> bool:
    return _is_int(value) or (isinstance(value, float) and -_MOST < value < _MOST)


def _is_str_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _is_table_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, dict) for v in value)


def _is_scalar_table(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(v, (str, int, float, bool)) for v in value.values())


_STRINGS = {"type": "array", "items": {"type": "string"}}
_TABLE = {"type": "object", "additionalProperties": True}
_TABLES = {"type": "array", "items": _TABLE}

TYPES: Mapping[str, FieldType] = {
    "str": FieldType("a string", lambda v: isinstance(v, str), {"type": "string"}),
    "int": FieldType("a whole number", _is_int, {"type": "integer"}),
    "count": FieldType("a whole number, 0 or more", lambda v: _is_int(v) and v >= 0, {"type": "integer", "minimum": 0}),
    "positive": FieldType(
        "a whole number, 1 or more", lambda v: _is_int(v) and v >= 1, {"type": "integer", "minimum": 1}
    ),
    "number": FieldType(
        "a number, 0 or more",
        lambda v: _is_number(v) and v >= 0,
        {"type": "number", "minimum": 0},
    ),
    "bool": FieldType("true or false", lambda v: isinstance(v, bool), {"type": "boolean"}),
    "bool|str": FieldType(
        "true, false or a string", lambda v: isinstance(v, (bool, str)), {"type": ["boolean", "string"]}
    ),
    "int|str": FieldType(
        "a whole number or a string", lambda v: _is_int(v) or isinstance(v, str), {"type": ["integer", "string"]}
    ),
    "list[str]": FieldType("a list of strings", _is_str_list, _STRINGS),
    "list[int]": FieldType(
        "a list of whole numbers",
        lambda v: isinstance(v, list) and all(_is_int(x) for x in v),
        {"type": "array", "items": {"type": "integer"}},
    ),
    "str|list[str]": FieldType(
        "a string or a list of strings",
        lambda v: isinstance(v, str) or _is_str_list(v),
        {"anyOf": [{"type": "string"}, _STRINGS]},
    ),
    "list[table]": FieldType("a list of tables", _is_table_list, _TABLES),
    "list[str|table]": FieldType(
        "a list of strings or tables",
        lambda v: isinstance(v, list) and all(isinstance(x, (str, dict)) for x in v),
        {"type": "array", "items": {"anyOf": [{"type": "string"}, _TABLE]}},
    ),
    "table": FieldType("a table", lambda v: isinstance(v, dict), _TABLE),
    "table[scalar]": FieldType(
        "a table of strings, numbers or booleans",
        _is_scalar_table,
        {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    ),
    "table[str]": FieldType(
        "a table of strings",
        lambda v: isinstance(v, dict) and all(isinstance(x, str) for x in v.values()),
        {"type": "object", "additionalProperties": {"type": "string"}},
    ),
}

_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"), (int, "a number"), (float, "a number"), (str, "a string"), (dict, "a table"),
    (list, "a list"),
)  # fmt: skip
_LONG_NUMBER = re.compile(r"\d{100}")
"""In text there may be digests and dates: a hundred digits are none of them."""

OPEN_TYPES = frozenset(name for name in TYPES if name.startswith("table"))
"""Types whose keys are the user's own: new keys may be set on the command line without `+`."""


def defaults_of(fields: Iterable[Field]) -> dict[str, Any]:
    """The value of each key where no layer sets it: its default, an empty table, or None. They are the caller's own."""
    return {field.name: _default_of(field) for field in fields}


def _default_of(field: Field) -> Any:
    if field.default is None:
        return {} if field.type in OPEN_TYPES else None
    return deepcopy(field.default)


SAME_NAME = "="
"""Stands in a declaration that has no name yet for that name."""

_KEY = "profile key"


def key(declared: Field, *, unset: Any = None) -> Any:
    """An attribute of a target's dataclass that is a profile key; it has the key's default, and the attribute's name.

    Args:
        declared: its name may be ''.
        unset: what the attribute is where the key is not set and has no default.
    """
    value = _carried(declared, None) if unset is None else unset
    metadata = {_KEY: (declared, unset)}
    if isinstance(value, dict):
        return attribute(default_factory=dict, metadata=metadata)
    return attribute(default=value, metadata=metadata)


def plain(type: str, help: str, **facts: Any) -> Any:
    """A key that nemotron itself uses."""
    return key(Field("", type, help, **facts))


def argument(type: str, help: str, **facts: Any) -> Any:
    """A key that is an argument of NeMo-Run's executor under its own name."""
    return plain(type, help, **{"nemo_run": SAME_NAME, **facts})


def text(help: str, *, unset: str | None = None, **facts: Any) -> Any:
    """A key whose value is text on one line. As `key`."""
    return key(Field("", **{"type": "str", "help": help, "one_line": True, **facts}), unset=unset)


def keys_of(target: Any) -> tuple[Field, ...]:
    """The keys that a target's dataclass declares, in its order: `key`s, and `Field`s that are declared `ClassVar`."""
    found = {name: _named(declared, name) for name, declared in _declarations(target)}
    return tuple(found.values())


def carried_keys(target: Any) -> tuple[Field, ...]:
    """Those of them that are attributes of the target, given its class."""
    carried = {each.name for each in fields(target)}
    return tuple(declared for declared in keys_of(target) if declared.name in carried)


def carried_values(target: Any, env: Mapping[str, Any]) -> dict[str, Any]:
    """What a target's attributes are by their declarations alone.

    Args:
        env: a merged profile. An empty string counts as not set.
    """
    found = {name: dict(value) if isinstance(value, dict) else value for name, value in _values_unset(target).items()}
    for each in _carried_declarations(target):
        value = env.get(each.name)
        if value is not None and value != "":
            found[each.name] = _value(each.declared, each.unset, value)
    return found


class _Attribute(NamedTuple):
    name: str
    declared: Field
    unset: Any


@cache
def _carried_declarations(target: Any) -> tuple[_Attribute, ...]:
    return tuple(_Attribute(each.name, *each.metadata[_KEY]) for each in fields(target) if _KEY in each.metadata)


@cache
def _values_unset(target: Any) -> Mapping[str, Any]:
    return {name: _value(declared, unset, None) for name, declared, unset in _carried_declarations(target)}


def _declarations(target: Any) -> Iterator[tuple[str, Field]]:
    carried = {each.name: each for each in fields(target)}
    for owner in (each for each in reversed(target.__mro__) if "__dataclass_fields__" in vars(each)):
        for name in vars(owner).get("__annotations__", {}):
            beside = vars(owner).get(name)
            if name in carried and _KEY in carried[name].metadata:
                yield name, carried[name].metadata[_KEY][0]
            elif isinstance(beside, Field):
                yield name, beside


def _named(declared: Field, name: str) -> Field:
    nemo_run, sbatch = (name if fact == SAME_NAME else fact for fact in (declared.nemo_run, declared.sbatch))
    return replace(declared, name=name, nemo_run=nemo_run, sbatch=sbatch)


def _value(declared: Field, unset: Any, value: Any) -> Any:
    found = _carried(declared, value)
    return unset if found is None else found


def _carried(declared: Field, value: Any) -> Any:
    """A value as a target has it: nothing that can be changed but tables, whole numbers of text keys as text."""
    given = declared.default if value is None else value
    if declared.seconds:
        return whole_seconds(str(given))
    if declared.type.startswith("list["):
        return tuple(given or ())
    if declared.type in OPEN_TYPES:
        return dict(given or {})
    if declared.type == "bool":
        return bool(given)
    return str(given) if given is not None and declared.type in ("str", "int|str") else given


def problem_with(field: Field, value: Any) -> str | None:
    """What is wrong with a value of this field, in words, or None. None as a value means "not set"."""
    if value is None:
        return None
    kind = TYPES[field.type]
    if hidden := hidden_in(value):
        return f"holds the control character {hidden}, which no reader sees"
    if too_large(value):
        return f"has a number of more than {MOST_DIGITS} digits"
    if not kind.accepts(value):
        return f"must be {kind.title}{_instead(field, value)}"
    if field.choices and value not in field.choices:
        return f"must be one of {', '.join(field.choices)}, not {value!r}"
    return None


def too_large(value: Any) -> bool:
    """True if a value is, or as text holds, a number that no platform has: Python's own end at 308 and 4,300 digits."""
    if isinstance(value, (int, float)):
        return not isinstance(value, bool) and abs(value) >= _MOST
    return isinstance(value, str) and bool(_LONG_NUMBER.search(value))


def _instead(field: Field, value: Any) -> str:
    """What was found, unless it may hold a secret: only a plain scalar of a plain field is repeated."""
    odd = _odd_part(field, value)
    if odd:
        return f": {odd}"
    if field.secret or isinstance(value, (dict, list)) or field.type.startswith("table"):
        return f", not {_kind(value) if isinstance(value, (dict, list)) else 'a scalar'}"
    return f", not {value!r}"


def _odd_part(field: Field, value: Any) -> str:
    """Which part of a list or table is not as it should be, where the whole is one; its value is not repeated."""
    kind = TYPES[field.type]
    if isinstance(value, list) and kind.accepts([]):
        number = next((n for n, item in enumerate(value) if not kind.accepts([item])), None)
        return "" if number is None else f"item {number + 1} is {_kind(value[number])}"
    if isinstance(value, dict) and kind.accepts({}):
        key = next((key for key, item in value.items() if not kind.accepts({key: item})), None)
        return "" if key is None else f"{key} is {_kind(value[key])}"
    return ""


def _kind(value: Any) -> str:
    return next((words for kind, words in _KINDS if isinstance(value, kind)), "null")
