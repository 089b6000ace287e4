"""A profile, whole: its chain merged, its references to the environment resolved, every value with its source."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, time
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nemo_runspec.errors import Code, Problems, Unfilled, UserError, did_you_mean, suggest
from nemo_runspec.field import Field, problem_with
from nemo_runspec.profiles.envfile import EnvFile, MergedProfile
from nemo_runspec.profiles.executor import executor_of
from nemo_runspec.profiles.fieldset import FieldSet, fields_of, owners_of
from nemo_runspec.profiles.interpolate import refers_to_environment, resolve_value, retype, unset_variables
from nemo_runspec.profiles.layers import extend
from nemo_runspec.profiles.system import SYSTEM_SECTIONS
from nemo_runspec.secret_names import is_secret_name
from nemo_runspec.source import Source

# Words that stand for something a site must fill in, as they occur in the project's own examples.
_PLACEHOLDER = re.compile(r"(?:\b(YOUR|MY)-[A-Z]|\bCHANGE[-_ ]?ME\b|/\.\.\./)")
_IN_BRACKETS = re.compile(r"<[A-Za-z][\w -]*>")
_SHOUTED = re.compile(r"\b(YOUR|MY)_[A-Z]")


@dataclass(frozen=True)
class Profile:
    """A resolved execution profile.

    Args:
        name: its section.
        file: the env file.
        chain: itself and its ancestors, child first.
        executor: which backend it runs on.
        values: canonical key → value; `extends` is gone, nothing is filled in from defaults.
        sources: dotted key → where it was written.
        warnings: what is odd but harmless, such as keys of another executor.
        unset: key → the variable that its value is to come from, which is not set.
    """

    name: str
    file: Path
    shown: str
    chain: tuple[str, ...]
    executor: str
    values: dict[str, Any]
    sources: dict[str, Source]
    warnings: tuple[str, ...] = ()
    unset: Mapping[str, str] = field(default_factory=dict)

    def unfilled(self) -> tuple[Unfilled, ...]:
        """What a site must still fill in: required keys that no recipe brings, placeholders that were left."""
        brought = {"container_image": "the recipe's own"}
        return unfilled_values(self.executor, {**brought, **self.values}, self.sources, self.unset)


def resolve_profile(env: EnvFile, name: str) -> Profile:
    """The profile of that name.

    Raises:
        UserError: unknown profile or parent, a cycle, or any problem of a key in its chain (all at once). Problems in
            profiles outside the chain are not looked at.
    """
    found, problems = read_profile(env, name)
    if problems:
        raise one_or_all(f"profile '{name}' of {found.shown} has", problems)
    return found


def read_profile(env: EnvFile, name: str) -> tuple[Profile, list[UserError]]:
    """A profile as far as it can be read, and what is wrong with keys in its chain: these are left out.

    Raises:
        UserError: unknown profile, parent or executor, or a cycle.
    """
    chain = env.chain(name)
    executor = executor_of(env, chain)
    fields = fields_of(executor)
    joined = _joined(env, chain, fields)
    problems = [problem for section in reversed(chain) for problem in env.merged[executor, section].problems]
    warnings = [note for section in reversed(chain) for note in env.merged[executor, section].warnings]
    sources = dict(joined.sources)
    values, missing = _resolve(joined.values, sources, fields, name)
    missed = {problem.key.partition(".")[0] for problem in missing}
    known = {key: value for key, value in values.items() if key not in missed}
    wrong = _type_problems(known, sources, fields)
    values = {key: value for key, value in known.items() if key not in {problem.key for problem in wrong}}
    file = env.file_of(name)
    unset = {key: names[0] for key, value in joined.values.items() if (names := _unset(value))}
    found = Profile(name, file.path, file.shown, chain, executor, values, sources, tuple(warnings), unset)
    return found, [*problems, *missing, *wrong]


def _unset(value: Any) -> list[str]:
    return unset_variables(value) if isinstance(value, str) else []


def _joined(env: EnvFile, chain: tuple[str, ...], fields: FieldSet) -> MergedProfile:
    """The first section of a chain with what it inherits. Each section is read once, however many extend it."""
    known = next((at for at, section in enumerate(chain) if (fields.executor, section) in env.merged), len(chain))
    above = env.merged[fields.executor, chain[known]] if known < len(chain) else MergedProfile({}, {})
    for section in reversed(chain[:known]):
        above = env.merged[fields.executor, section] = _extended(env, section, above, fields)
    return above


def _extended(env: EnvFile, section: str, parent: MergedProfile, fields: FieldSet) -> MergedProfile:
    layer, problems, warnings = read_section(env, section, fields)
    sources = {path: replace(source, inherited=True) for path, source in parent.sources.items()}
    for key in layer:
        _drop_sources(sources, key, keep=isinstance(parent.values.get(key), dict) and isinstance(layer[key], dict))
    sources.update(_sources(env, section, layer, fields))
    return MergedProfile(extend(parent.values, layer), sources, tuple(problems), tuple(warnings))


def system_section(env: EnvFile, name: str) -> dict[str, Any]:
    """A system section with its references to the environment resolved.

    Raises:
        UserError: an unknown key, a wrong type, or a variable that is not set.
    """
    problems = [p for section, p in system_problems(env) if section == name]

    def report(variable: str) -> None:
        problems.append(
            UserError(
                f"[{name}] needs the environment variable {variable}, which is not set",
                where=env.where(name),
                remedy=f"export {variable}=…, or give a default: ${{oc.env:{variable},default}}",
            )
        )

    values: dict[str, Any] = resolve_value(env.system(name), report)
    if problems:
        raise one_or_all(f"[{name}] of {env.file_of(name).shown} has", problems)
    return values


def system_problems(env: EnvFile) -> list[tuple[str, UserError]]:
    """Unknown keys and wrong types in `[wandb]`, `[artifacts]`, `[cache]` and `[cli]`, with their section."""
    return [
        (section, problem)
        for section, fields in SYSTEM_SECTIONS.items()
        for key, value in env.system(section).items()
        for problem in _system_key(env, section, {f.name: f for f in fields}, key, value)
    ]


def read_section(env: EnvFile, section: str, fields: FieldSet) -> tuple[dict[str, Any], list[UserError], list[str]]:
    """One section with canonical keys, what is wrong with its keys, and what is merely odd."""
    layer: dict[str, Any] = {}
    problems: list[UserError] = []
    warnings: list[str] = []
    for key, value in env.sections[section].items():
        if key == "extends":
            continue
        name = fields.canonical(key)
        if name is None:
            problem, warning = _foreign(env, section, key, fields)
            problems += problem
            warnings += warning
        elif name in layer:
            problems.append(_twice(env, section, key, name))
        else:
            layer[name] = value
    return layer, problems, warnings


def one_or_all(title: str, problems: list[UserError]) -> UserError:
    """One problem as itself, several as one report."""
    return problems[0] if len(problems) == 1 else Problems(f"{title} {len(problems)} problems", problems)


def unfilled_values(
    executor: str,
    values: Mapping[str, Any],
    sources: Mapping[str, Source],
    unset: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Unfilled, ...]:
    """Required keys that have no value and values that are still placeholders, one line each. `unset`: as `Profile`."""
    fields = fields_of(executor)
    missing = [
        Unfilled(
            f"{field.name} is required by executor '{executor}' and not set"
            + (f": export {unset[field.name]}=…" if field.name in unset else ""),
            key=field.name,
            code=Code.REQUIRED,
        )
        for field in fields.fields.values()
        if field.required and values.get(field.name) in (None, "")
    ]
    return (*missing, *placeholders(values, sources, verbatim=fields.where(lambda key: key.verbatim)))


def placeholders(
    values: Mapping[str, Any], sources: Mapping[str, Source], prefix: str = "", verbatim: Collection[str] = ()
) -> tuple[Unfilled, ...]:
    """Values that still stand for something a site must fill in, one line each.

    Args:
        prefix: goes before each key.
        verbatim: keys that are so (`Field.verbatim`).
    """
    return tuple(
        Unfilled(
            f"{prefix}{path} is still a placeholder"
            + ("" if is_secret_name(path.rsplit(".", 1)[-1]) else f": {text!r}")
            + (f" ({source.place()})" if (source := sources.get(path) or sources.get(key)) else ""),
            key=f"{prefix}{path}",
            code=Code.PLACEHOLDER,
        )
        for key, value in values.items()
        for path, text in _texts(key, value)
        if _is_placeholder(key, text, verbatim=key in verbatim)
    )


def _is_placeholder(key: str, text: str, *, verbatim: bool) -> bool:
    """Variables may hold any text: there only a value that is nothing but a placeholder counts."""
    if key == "env_vars":
        return any(re.fullmatch(p.pattern + r"[\w-]*", text) for p in (_PLACEHOLDER, _IN_BRACKETS, _SHOUTED))
    if _PLACEHOLDER.search(text):
        return True
    return not verbatim and bool(_IN_BRACKETS.search(text) or _SHOUTED.search(text))


def _texts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, below in value.items():
            yield from _texts(f"{path}.{key}", below)
    elif isinstance(value, (list, tuple)):
        for below in value:
            yield from _texts(path, below)


def type_problem(key: str, value: Any, fields: FieldSet, source: Source | None) -> UserError | None:
    """What is wrong with the value of a canonical key, as an error with its place."""
    message = problem_with(fields.fields[key], value)
    if message is None:
        return None
    remedy = None
    if isinstance(value, (time, date)):
        remedy = f'quote it: {key} = "{value}"'
    elif isinstance(value, str) and fields.fields[key].type in ("list[str]", "list[str|table]"):
        remedy = f'write a list: {key} = ["{value}"]'
    return UserError(f"{key} {message}", where=source.place() if source else None, remedy=remedy, key=key)


def _foreign(env: EnvFile, section: str, key: str, fields: FieldSet) -> tuple[list[UserError], list[str]]:
    owners = owners_of(key)
    where = env.where(section, key)
    if owners:
        return [], [f"{key} is a key of {' and '.join(owners)}; executor '{fields.executor}' ignores it ({where})"]
    known = [*fields.spellings, "extends"]
    remedy = did_you_mean(key, known) or f"keys of executor '{fields.executor}': nemotron env fields {fields.executor}"
    meant = fields.canonical(suggest(key, known) or "") or ""
    return [UserError(f"unknown key '{key}'", where=where, remedy=remedy, key=meant, code=Code.UNKNOWN_KEY)], []


def _twice(env: EnvFile, section: str, key: str, name: str) -> UserError:
    return UserError(
        f"'{key}' and another spelling of '{name}' are both set", where=env.where(section, key),
        remedy=f"keep one; the canonical spelling is '{name}'",
    )  # fmt: skip


def _sources(env: EnvFile, section: str, layer: Mapping[str, Any], fields: FieldSet) -> dict[str, Source]:
    written = {fields.canonical(key): key for key in env.sections[section]}
    found = {}
    for name, value in layer.items():
        key = written.get(name) or name
        found[name] = env.source(section, key)
        if isinstance(value, dict):
            for sub in value:
                found[f"{name}.{sub}"] = env.source(section, key, sub)
    return found


def _drop_sources(sources: dict[str, Source], key: str, *, keep: bool) -> None:
    if not keep:
        for path in [p for p in sources if p.startswith(f"{key}.")]:
            del sources[path]


def _resolve(
    values: dict[str, Any], sources: Mapping[str, Source], fields: FieldSet, profile: str
) -> tuple[dict[str, Any], list[UserError]]:
    problems: list[UserError] = []
    resolved: dict[str, Any] = {}
    for key, value in values.items():
        for path, part in _parts(key, value):

            def report(variable: str, path: str = path) -> None:
                place = sources.get(path) or sources[path.split(".")[0]]
                problems.append(
                    UserError(
                        f"profile '{profile}': {path} needs the environment variable {variable}, which is not set",
                        where=place.place(),
                        remedy=f"export {variable}=…, or give a default: ${{oc.env:{variable},default}}",
                        code=Code.UNSET_VARIABLE,
                        key=path,
                    )
                )

            done = resolve_value(part, report)
            if path == key:
                resolved[key] = retype(done, fields.fields[key].type) if refers_to_environment(part) else done
            else:
                resolved.setdefault(key, {})[path[len(key) + 1 :]] = done
    return resolved, problems


def _parts(key: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        return [(f"{key}.{sub}", part) for sub, part in value.items()]
    return [(key, value)]


def _type_problems(values: Mapping[str, Any], sources: Mapping[str, Source], fields: FieldSet) -> list[UserError]:
    found = (type_problem(key, value, fields, sources.get(key)) for key, value in values.items())
    return [problem for problem in found if problem is not None]


def _system_key(env: EnvFile, section: str, fields: Mapping[str, Field], key: str, value: Any) -> Iterator[UserError]:
    where = env.where(section, key)
    if key not in fields:
        remedy = did_you_mean(key, fields) or f"keys of [{section}]: {', '.join(fields)}"
        yield UserError(f"unknown key '{key}' in [{section}]", where=where, remedy=remedy, code=Code.UNKNOWN_KEY)
        return
    message = problem_with(fields[key], value)
    if message:
        yield UserError(f"{key} {message}", where=where)
