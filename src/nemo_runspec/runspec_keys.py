"""The keys that a header may have, and what is wrong with those it has: every mistake at once, each with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_runspec.errors import Problems, UserError, did_you_mean

SCHEMAS = ("1",)
LAUNCHERS = ("torchrun", "ray", "direct")
KINDS = ("train", "data", "eval", "build", "tool", "pipe")
PIPE = "pipe"
"""The kind whose configs are pipelines of other recipes: nothing of it is run itself."""

OWN_PYTHON = "nemotron"
"""As `python`: the interpreter that runs nemotron itself, with all that it can import, on this machine."""
PARAMETER_TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "bool": (bool,),
    "list": (list,),
    "table": (dict,),
}
"""What `type` of a parameter may be → the values that are of it. A truth value is no number (`is_of`)."""

TYPE_WORDS: Mapping[str, str] = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "list": "a list",
    "table": "a table",
}
"""The same for a person."""

LONGEST_PATTERN = 300
"""Characters of a pattern of `[[tool.runspec.errors]]`."""


def is_of(value: Any, types: tuple[type, ...]) -> bool:
    """True if a value is of one of these types; of Python's, for which `True` is a whole number, all but that."""
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))


def in_words(value: Any) -> str:
    """A value as YAML has it: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class _Key:
    """One accepted key of a table: its types, the values it may have, and whether it must be there."""

    types: tuple[type, ...]
    choices: tuple[str, ...] = ()
    required: bool = False
    may_be_negative: bool = False


_STR, _INT, _BOOL, _LIST, _TABLE = _Key((str,)), _Key((int,)), _Key((bool,)), _Key((list,)), _Key((dict,))
_NAME = _Key((str,), required=True)
_NUMBER = _Key((int, float), may_be_negative=True)
_ARTIFACT = {"name": _NAME, "type": _NAME, "description": _STR, "required": _BOOL, "recipe": _STR}
_TABLES: dict[str, dict[str, _Key]] = {
    "": {
        "schema": _Key((str,), SCHEMAS),
        "name": _STR,
        "description": _STR,
        "kind": _Key((str,), KINDS),
        "tags": _LIST,
        "image": _STR,
        "setup": _LIST,
        "download": _STR,
        "uses": _STR,
        "run": _TABLE,
        "config": _TABLE,
        "resources": _TABLE,
        "env": _TABLE,
        "requires_env": _LIST,
        "consumes": _LIST,
        "produces": _LIST,
        "parameters": _LIST,
        "models": _LIST,
        "errors": _LIST,
    },
    "run": {
        "launch": _Key((str,), LAUNCHERS),
        "cmd": _STR,
        "workdir": _STR,
        "head_only": _BOOL,
        "python": _Key((str,), (OWN_PYTHON,)),
    },
    "config": {"dir": _STR, "default": _STR},
    "resources": {"nodes": _INT, "gpus_per_node": _INT},
    "consumes": _ARTIFACT,
    "produces": {k: v for k, v in _ARTIFACT.items() if k != "recipe"},
    "parameters": {
        "name": _NAME,
        "description": _NAME,
        "type": _Key((str,), tuple(PARAMETER_TYPES)),
        "choices": _LIST,
        "required": _BOOL,
        "min": _NUMBER,
        "max": _NUMBER,
    },
    "models": {"name": _NAME, "parameter": _NAME, "description": _STR, "min_gpus": _INT},
    "errors": {"pattern": _NAME, "cause": _NAME, "remedy": _STR},
}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TAG = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_TAKEN = frozenset({"env", "wandb", "artifacts", "name", "recipe", "config", "mode", "profile", "output_dir"})
_WORDS = {
    (str,): "a string",
    (int,): "a whole number",
    (int, float): "a number",
    (list,): "a list",
    (dict,): "a table",
    (bool,): "true or false",
}


def check_header(table: Any, shown: str, lines: Mapping[str, int]) -> None:
    """Raises `UserError` for all that is wrong with `[tool.runspec]`.

    Args:
        table: the parsed table.
        shown: the file, as a person names it.
        lines: the line of each key, as `Runspec.lines` has them.
    """
    if not isinstance(table, dict):
        raise UserError("[tool.runspec] must be a table", where=shown)
    problems = [error for each in _tables_of(table, shown, lines) for error in _problems(each)]
    problems += _twice(table, shown, lines)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise Problems(f"{shown}: {len(problems)} problems in [tool.runspec]", problems)


@dataclass(frozen=True)
class _Part:
    """One table of the header: its name as in `_TABLES`, its values, and where they stand."""

    name: str
    values: Mapping[str, Any]
    place: str
    shown: str
    lines: Mapping[str, int]

    @property
    def label(self) -> str:
        """The table, as the file has it."""
        name = f"tool.runspec.{self.name}" if self.name else "tool.runspec"
        return f"[[{name}]]" if _TABLES[""].get(self.name) is _LIST else f"[{name}]"

    def error(self, key: str, what: str, remedy: str | None = None) -> UserError:
        """An error about a key, with its line; about the table where it has none."""
        line = self.lines.get(f"{self.place}.{key}") or self.lines.get(self.place)
        return UserError(what, where=f"{self.shown}:{line}" if line else self.shown, remedy=remedy)


def _tables_of(table: dict[str, Any], shown: str, lines: Mapping[str, int]) -> Iterator[_Part]:
    yield _Part("", table, "tool.runspec", shown, lines)
    for name in _TABLES:
        value, place = (table.get(name) if name else None), f"tool.runspec.{name}"
        if isinstance(value, dict):
            yield _Part(name, value, place, shown, lines)
        elif isinstance(value, list):
            for number, item in enumerate(value):
                given = item if isinstance(item, dict) else {"": item}
                yield _Part(name, given, f"{place}.{number}", shown, lines)


def _problems(part: _Part) -> Iterator[UserError]:
    known = _TABLES[part.name]
    right: dict[str, Any] = {}
    for key, value in part.values.items():
        found = _problem(part, key, value)
        if found is None:
            right[key] = value
        else:
            yield found
    yield from _odd_values(part, right)
    missing = [k for k, spec in known.items() if spec.required and k not in part.values]
    if missing:
        yield part.error("", f"{part.label} needs {', '.join(missing)}")


def _problem(part: _Part, key: str, value: Any) -> UserError | None:
    known, label = _TABLES[part.name], f"{part.label} {key}"
    spec = known.get(key)
    if spec is None:
        return part.error(key, f"unknown key {label}", did_you_mean(key, known))
    if not is_of(value, spec.types):
        return part.error(key, f"{label} must be {_WORDS[spec.types]}")
    if spec.choices and value not in spec.choices:
        what = f"{label} must be one of {', '.join(spec.choices)}, not {value!r}"
        return part.error(key, what, did_you_mean(str(value), spec.choices))
    if int in spec.types and value < 0 and not spec.may_be_negative:
        return part.error(key, f"{label} must be 0 or more, not {value}")
    return None


def _odd_values(part: _Part, right: Mapping[str, Any]) -> Iterator[UserError]:
    """What is wrong inside values of the right type."""
    if not part.name:
        yield from _odd_lists(part, right)
    if part.name in ("consumes", "produces"):
        yield from _odd_artifact(part, right.get("name"))
    if part.name == "parameters":
        yield from _odd_parameter(part, right)
    if part.name == "errors" and "pattern" in right:
        problem = pattern_problem(right["pattern"])
        if problem:
            yield part.error("pattern", f"{part.label} pattern {problem}")


def _odd_lists(part: _Part, right: Mapping[str, Any]) -> Iterator[UserError]:
    if any(not isinstance(item, str) for item in right.get("setup", ())):
        yield part.error("setup", f"{part.label} setup must be a list of strings")
    for name in right.get("requires_env", ()):
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            yield part.error("requires_env", f"{part.label} requires_env must be a list of names, and holds {name!r}")
    for tag in right.get("tags", ()):
        if not isinstance(tag, str) or not _TAG.fullmatch(tag):
            remedy = "a tag is one word of small letters, digits, '-', '_' and '.'"
            yield part.error("tags", f"{part.label} tags cannot hold {tag!r}", remedy)
    for key, value in right.get("env", {}).items():
        if not _VARIABLE.fullmatch(key) or isinstance(value, (dict, list)):
            yield part.error(f"env.{key}", f"[tool.runspec.env] {key} must be NAME = a string, number or boolean")


def _odd_artifact(part: _Part, name: str | None) -> Iterator[UserError]:
    if name is not None and (name in _TAKEN or not _VARIABLE.fullmatch(name)):
        what = f"{part.label} cannot be named {name!r}: it is a key below 'run'"
        yield part.error("name", what, "choose another plain word, such as data or model")


def _odd_parameter(part: _Part, right: Mapping[str, Any]) -> Iterator[UserError]:
    """Choices and a range have to be of the parameter's own type, and allow something."""
    kind, choices = right.get("type"), right.get("choices")
    types = PARAMETER_TYPES.get(kind or "", (str, int, float, bool))
    if choices is not None and (not choices or kind in ("list", "table")):
        yield part.error("choices", f"{part.label} choices must be a list of the values that it may have")
    elif wrong := [item for item in choices or () if not is_of(item, types)]:
        words = f"of type {kind}" if kind else "text, numbers, true and false"
        yield part.error("choices", f"{part.label} choices must be {words}, not {wrong[0]!r}")
    limits = [key for key in ("min", "max") if key in right]
    if limits and kind not in (None, "int", "float"):
        yield part.error(limits[0], f"{part.label} {limits[0]} is for numbers, and the type is {kind}")
    elif len(limits) == 2 and right["min"] > right["max"]:
        yield part.error("max", f"{part.label} max is {right['max']}, below min, {right['min']}")


def pattern_problem(pattern: str) -> str | None:
    """What is wrong with a pattern, or None: it has to compile, and to be quick over any line."""
    if len(pattern) > LONGEST_PATTERN:
        return f"has {len(pattern)} characters; at most {LONGEST_PATTERN} are taken"
    try:
        matches_nothing = re.compile(pattern).search("") is not None
    except (re.error, RecursionError, OverflowError) as error:
        return f"is no regular expression: {error}"
    if matches_nothing:
        return "matches an empty line, and so any log"
    return _too_slow(pattern)


_NO_OPERATOR = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.")
_REPETITION = re.compile(r"(?P<group>\))?(?:[*+]|\{(?P<least>\d*)(?P<to>,?)(?P<most>\d*)\})[?+]?")
_FEW, _MOST_OPEN = 10, 2


def _too_slow(pattern: str) -> str | None:
    """What may take forever over a long line; without it the time grows as a small power of the line's length."""
    plain = _NO_OPERATOR.sub("x", pattern)  # what means a character: `[+*]` and `\+` repeat nothing
    many = [each for each in _REPETITION.finditer(plain) if _is_many(each)]
    if any(each["group"] for each in many):
        return f"repeats a group more than {_FEW} times, which may take forever over a long line"
    if len(many) > _MOST_OPEN:
        return f"repeats without an end in {len(many)} places, which takes long over a long line; at most {_MOST_OPEN}"
    return None


def _is_many(repetition: re.Match[str]) -> bool:
    if "{" not in repetition[0]:
        return True
    if not repetition["most"]:
        return bool(repetition["to"]) or int(repetition["least"] or 0) > _FEW
    return int(repetition["most"]) > _FEW


def _twice(table: Mapping[str, Any], shown: str, lines: Mapping[str, int]) -> Iterator[UserError]:
    """Parameters, inputs and outputs whose name is there already."""
    seen: set[tuple[str, str]] = set()
    for name, kind in (("parameters", "parameters"), ("consumes", "artifacts"), ("produces", "artifacts")):
        items: Sequence[Any] = table[name] if isinstance(table.get(name), list) else ()
        for number, item in enumerate(items):
            word = item.get("name") if isinstance(item, dict) else None
            if isinstance(word, str) and (kind, word) in seen:
                line = lines.get(f"tool.runspec.{name}.{number}.name")
                yield UserError(f"[[tool.runspec.{name}]] {word!r} is there already", where=f"{shown}:{line}")
            seen.add((kind, str(word)))
