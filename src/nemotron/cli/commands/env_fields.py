"""`nemotron env fields [EXECUTOR] [TEXT…]`: the keys a profile may have, by topic, and found by what they are about."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.field import TYPES, Field
from nemo_runspec.text import clean, one_line
from nemo_runspec.topics import in_order
from nemotron.cli.text import paint, table

HELP = "The keys a profile may have, by topic; those about something: nemotron env fields timeout"


@dataclass(frozen=True)
class _Key:
    """One key, and the executors that take it as it is declared here."""

    field: Field
    executors: tuple[str, ...]

    def has(self, words: Sequence[str]) -> bool:
        """True if every word stands in its names, its help or its choices."""
        field = self.field
        text = " ".join((field.name, *field.aliases, field.help, *field.choices)).casefold()
        return all(word.casefold() in text for word in words)


def call(words: Sequence[str], as_json: bool) -> int:
    """Prints the keys of an executor, of all of them, or those that some words are about.

    Raises:
        UserError: no key is about them.
    """
    from nemo_runspec.backends import known_executors

    executor, words = (words[0], words[1:]) if words and words[0] in known_executors() else (None, words)
    found = [key for key in _keys(executor) if key.has(words)]
    if not found:
        raise _nothing(executor, words)
    order = in_order(key.field.topic for key in found)
    found.sort(key=lambda key: order.index(key.field.topic))
    if as_json:
        print(json.dumps([_as_json(key) for key in found], indent=2))
        return 0
    from nemotron.cli.pager import show

    show("\n".join(_lines(found, executor)))
    return 0


def complete_words(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """Executors, and the keys of all of them."""
    from nemo_runspec.backends import known_executors

    names = dict.fromkeys([*known_executors(), *(key.field.name for key in _keys(None))])
    return [name for name in names if name.startswith(incomplete)]


def _keys(executor: str | None) -> list[_Key]:
    """The keys of an executor, or of all that can be loaded; one that means the same to several stands once."""
    from nemo_runspec.backends import find_backend, known_executors
    from nemo_runspec.profiles.fieldset import fields_of

    if executor:
        return [_Key(field, (executor,)) for field in fields_of(executor).fields.values()]
    takers: dict[tuple[str, str], list[str]] = {}
    declared: dict[tuple[str, str], Field] = {}
    for name in filter(find_backend, known_executors()):
        for field in fields_of(name).fields.values():
            takers.setdefault((field.name, field.help), []).append(name)
            declared.setdefault((field.name, field.help), field)
    return [_Key(field, tuple(takers[key])) for key, field in declared.items()]


def _nothing(executor: str | None, words: Sequence[str]) -> UserError:
    from nemo_runspec.backends import known_executors

    known = {*known_executors(), *(key.field.name for key in _keys(executor))}
    return UserError(
        f"no key of {f'executor {executor!r}' if executor else 'a profile'} is about '{' '.join(words)}'",
        remedy=did_you_mean(words[0], known) or f"executors: {', '.join(known_executors())}",
    )


def _lines(found: Iterable[_Key], executor: str | None) -> list[str]:
    topics: dict[str, list[_Key]] = {}
    for key in found:
        topics.setdefault(key.field.topic, []).append(key)
    lines = []
    for topic, keys in topics.items():
        rows = [(key.field.name, f"{one_line(key.field.help)} ({_facts(key, executor)})") for key in keys]
        lines += ["", paint(topic, "bold"), *table(rows)]
    return lines[1:]


def _facts(key: _Key, executor: str | None) -> str:
    """What it takes, its default, its other names and, where no executor was named, who takes it."""
    field = key.field
    facts = [" | ".join(field.choices) if field.choices else TYPES[field.type].title]
    if field.required:
        facts.append("required")
    elif field.default not in (None, "", [], {}):
        facts.append(f"default {value_text(field.default)}")
    if field.aliases:
        facts.append(f"also {', '.join(field.aliases)}")
    if executor is None and len(key.executors) < _all_executors():
        facts.append(f"only {', '.join(key.executors)}")
    return "; ".join(facts)


def _all_executors() -> int:
    from nemo_runspec.backends import find_backend, known_executors

    return len([name for name in known_executors() if find_backend(name)])


def value_text(value: Any) -> str:
    """A key's value as a list of keys shows it: text as it is, anything else as JSON."""
    return clean(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _as_json(key: _Key) -> dict[str, Any]:
    field = key.field
    return {
        "name": field.name,
        "aliases": list(field.aliases),
        "type": field.type,
        "default": field.default,
        "required": field.required,
        "choices": list(field.choices),
        "help": field.help,
        "topic": key.field.topic,
        "executors": list(key.executors),
    }
