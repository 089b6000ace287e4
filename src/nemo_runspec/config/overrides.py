"""Command-line overrides in Hydra's own grammar: parsing, aliases of profile keys, sweeps, and useful errors."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from nemo_runspec.config.plain import plain_setting
from nemo_runspec.errors import UserError, first_line
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.source import COMMAND_LINE

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

_ENV_KEY = re.compile(r"^(\+\+|\+|~)?run\.env\.([A-Za-z_]\w*)(?=[.=]|$)")
_ASK_FOR_SWEEP = "add -m (from Python: nemo_runspec.sweep)"
_KEY = re.compile(r"^(?:\+\+|\+|~)?[A-Za-z_][\w./@$-]*$")


def parse_override(text: str, loader: Any = None, where: str = COMMAND_LINE) -> Override:
    """One override.

    Args:
        loader: Hydra's, which knows the config groups that `glob()` chooses from.
        where: the place that an error names.

    Raises:
        UserError: Hydra's grammar does not take it; with the quoted spelling to paste, where that would be taken.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    if not text.isprintable() and "\x00" in text:
        raise UserError("an override may not hold a NUL byte", where=where)
    try:
        override = OverridesParser.create().parse_override(text)
    except (HydraException, RecursionError, ValueError) as error:  # ValueError: a number of 5,000 digits
        raise _unreadable(text, first_line(error), where) from None
    override.config_loader = loader
    return override


def canonical_override(text: str, executor: str) -> str:
    """The override with a profile key's canonical spelling: `run.env.container=…` → `run.env.container_image=…`."""
    match = _ENV_KEY.match(text)
    if match is None:
        return text
    name = fields_of(executor).canonical(match.group(2))
    if name is None or name == match.group(2):
        return text
    return f"{match.group(1) or ''}run.env.{name}{text[match.end() :]}"


def is_hydra_override(text: str) -> bool:
    """True for an override of Hydra's own settings: `hydra/sweeper=optuna`, `hydra.sweeper.n_trials=6`."""
    return text.lstrip("+~").startswith(("hydra/", "hydra."))


def refuse_hydra(override: Override, where: str) -> None:
    """Raises `UserError` for an override of Hydra's own settings."""
    if is_hydra_override(override.input_line or ""):
        raise UserError(
            f"'{override.input_line}' belongs to a sweep",
            where=where,
            remedy=f"{_ASK_FOR_SWEEP}; hydra/sweeper=… and hydra.sweeper.… say how the values of its runs are chosen",
        )


def refuse_sweep(override: Override, where: str) -> None:
    """Raises `UserError` where an override names several values and no sweep was asked for."""
    if not override.is_sweep_override():
        return
    text = override.input_line or ""
    key, _, value = text.partition("=")
    raise UserError(
        f"'{text}' names several values",
        where=where,
        remedy=f"for one run each {_ASK_FOR_SWEEP}; or as a list {shlex.quote(f'{key}=[{value}]')}; "
        f"or as text {shlex.quote(quoted(key, value))}",
    )


def expand_sweep(overrides: Sequence[str], largest: int, loader: Any = None) -> list[tuple[str, ...]]:
    """Every combination of the values that sweep overrides name, in Hydra's order: the last one varies fastest.

    Raises:
        UserError: an override cannot be read, sweeps over nothing, or there are more than `largest` combinations.
    """
    combinations = 1
    choices: list[list[str]] = []
    for text in overrides:
        override = parse_override(text, loader)
        choices.append(_sweep_values(override, text, largest) if override.is_sweep_override() else [text])
        combinations *= len(choices[-1])
        if combinations > largest:
            raise UserError(f"the sweep has more than {largest:,} combinations", where=COMMAND_LINE)
    return [tuple(combination) for combination in product(*choices)]


def _sweep_values(override: Override, text: str, largest: int) -> list[str]:
    from hydra.errors import HydraException

    key = override.get_key_element()
    try:
        values = [f"{key}={value}" for value in islice(override.sweep_string_iterator(), largest + 1)]
    except (HydraException, ValueError, TypeError) as error:
        remedy = "a range without steps is for a sweeper: add hydra/sweeper=optuna" if "=interval(" in text else None
        what = f"cannot expand the sweep {text!r}: {first_line(error)}"
        raise UserError(what, where=COMMAND_LINE, remedy=remedy) from None
    if not values:
        raise UserError(f"the sweep {text!r} has no values", where=COMMAND_LINE)
    return values


def _unreadable(text: str, why: str, where: str) -> UserError:
    """The error for an override that Hydra's grammar does not take."""
    closed = _closed(text)
    if closed:
        why, remedy = "a bracket is left open", f"close it, in quotes for the shell: {shlex.quote(closed)}"
    else:
        remedy = _quoted_spelling(text) or "overrides are key=value, +new=value or ~gone"
    return UserError(f"cannot read the override {text!r}: {why}", where=where, remedy=remedy)


_OPENED = {"[": "]", "{": "}", "(": ")"}


def is_open(value: str) -> bool:
    """True if a value ends within a bracket or a quote: the shell took what stood behind, or it was forgotten."""
    return bool(_left_open(value))


def _left_open(value: str) -> str:
    """What would close the brackets and the quote that a value leaves open, in order."""
    closing, quote = "", ""
    for before, char in zip(" " + value, value, strict=False):
        if quote:
            quote = "" if char == quote and before != "\\" else quote
        elif char in "\"'":
            quote = char
        elif char in _OPENED:
            closing = _OPENED[char] + closing
        elif closing[:1] == char:
            closing = closing[1:]
    return quote + closing


def _closed(text: str) -> str:
    """The same list or table with what would close it; '' where none is left open, or that would not do."""
    value = text.partition("=")[2]
    if value[:1] not in ("[", "{") or not is_open(value):
        return ""
    closed = text.rstrip(", ") + _left_open(value)
    return closed if _value_of(closed) is not None else ""


def _quoted_spelling(text: str) -> str | None:
    key, equals, value = text.partition("=")
    if not equals or not _KEY.match(key):
        return None
    spelling = quoted(key, value)
    return f"quote it: {shlex.quote(spelling)}" if _value_of(spelling) == value else None


def _value_of(text: str) -> Any:
    """The value of an override, None where it cannot be read."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(text).value()
    except (HydraException, RecursionError, ValueError):
        return None


def quoted(key: str, value: str) -> str:
    """`key="value"` in Hydra's quoting, whatever the value holds."""
    return f"{key}={_in_quotes(value)}"


def override_of(key: str, value: Any) -> str:
    """The override that gives a key a value of a YAML file's.

    Raises:
        UserError: it cannot be written as one: a date, bytes, or a table's key beyond Hydra's grammar.
    """
    text = f"{key}={_written(key, value)}"
    read = plain_setting(text)
    found = read.value if read is not None else parse_override(text).value()
    if repr(found) != repr(value):  # nan is not itself
        raise UserError(f"'{key}' cannot be given the value {value!r}", remedy="write it as text, in quotes")
    return text


def _written(key: str, value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return _in_quotes(value)
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(_written(key, each) for each in value)}]"
    if isinstance(value, dict):
        pairs = (f"{name if isinstance(name, str) else _written(key, name)}: " + _written(key, each)
                 for name, each in value.items())  # fmt: skip
        return f"{{{','.join(pairs)}}}"
    raise UserError(f"'{key}' cannot be given a {type(value).__name__}", remedy="write it as text, in quotes")


def _in_quotes(value: str) -> str:
    """Hydra's grammar: inside quotes only the quote is escaped, and backslashes only where a quote follows them."""
    quote = "'" if '"' in value and "'" not in value else '"'
    escaped = re.sub(rf"(\\+)\Z|(\\*){quote}", lambda m: m[1] * 2 if m[1] else f"{m[2] * 2}\\{quote}", value)
    return f"{quote}{escaped}{quote}"
