"""Finds mistakes in steps as they are shipped: headers, configurations, types, places in the graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.artifacts.graph import Graph, step_of
from nemo_runspec.artifacts.types import Types
from nemo_runspec.catalog import Recipe
from nemo_runspec.errors import Problems, UserError, did_you_mean
from nemo_runspec.planning.parameters import wrong_with
from nemo_runspec.planning.shipped import MANDATORY, Shipped, shipped
from nemo_runspec.source import display_path
from nemo_runspec.steps import step_id

TINY = "tiny"
"""The configuration that shows that a step runs, without meaningful work."""

_PLACEHOLDER = re.compile(r"/path/to\b|(?i:\byour[-_ ])|\bCHANGE[-_ ]?ME\b|/\.\.\./|^<[A-Za-z][\w .:/-]*>$|^TODO\b")
_SPECIAL_TOKENS = frozenset({"<pad>", "<s>", "<unk>", "<eos>", "<bos>", "<mask>", "<cls>", "<sep>"})
_WITHOUT_TINY = frozenset({"tool", "build", "pipe"})
"""Kinds of recipes that have no work to be made small."""

_TEMPLATES = "env_toml"
"""What makes this type has templates for configurations: placeholders are what they are for."""


@dataclass(frozen=True)
class LintFinding:
    """Something that is wrong.

    Args:
        step: its identifier; '' for what all steps share.
        rule: a word for the kind of mistake.
        where: `file:line`.
        what: one line.
        remedy: how to mend it, '' where that is plain.
    """

    step: str
    rule: str
    where: str
    what: str
    remedy: str = ""


@dataclass(frozen=True)
class _Step:
    """A step whose header can be read, with its configurations."""

    recipe: Recipe
    types: Types | None
    configs: Mapping[str, Shipped] = field(default_factory=dict)

    def found(self, rule: str, where: str, what: str, remedy: str | None = None) -> LintFinding:
        return LintFinding(step_id(self.recipe), rule, where, what, remedy or "")

    def header(self, *path: object) -> str:
        """Where a key of the header stands; the file where it has no line of its own."""
        lines = self.recipe.spec.lines
        key = ".".join(map(str, ("tool.runspec", *path)))
        while key and key not in lines:
            key = key.rpartition(".")[0]
        return f"{display_path(self.recipe.script)}:{lines[key]}" if key else display_path(self.recipe.script)


def lint(steps: Sequence[Recipe], asked: Iterable[str] | None = None) -> list[LintFinding]:
    """All that is wrong, step by step.

    Args:
        steps: every step there is: they are one graph.
        asked: identifiers of those that are looked at; None for all, and for what they share.
    """
    wanted = {step_id(recipe) for recipe in steps} if asked is None else set(asked)
    types, found = _types()
    readable = [recipe for recipe in steps if not recipe.problem()]
    for recipe in steps:
        if step_id(recipe) in wanted:
            found += _header(recipe) if recipe.problem() else _of_step(recipe, types)
    found += [each for each in _graph(readable, types) if each.step in wanted or asked is None]
    return [each for each in found if each.step or asked is None]


def _types() -> tuple[Types | None, list[LintFinding]]:
    try:
        return Types.load(), []
    except UserError as error:
        return None, [LintFinding("", "types", error.where or "", error.what, error.remedy or "")]


def _header(recipe: Recipe) -> list[LintFinding]:
    try:
        _ = recipe.spec
    except UserError as error:
        return [_of_error(recipe, "header", each) for each in _each(error)]
    return []


def _each(error: UserError) -> Sequence[UserError]:
    return error.problems if isinstance(error, Problems) else (error,)


def _of_error(recipe: Recipe, rule: str, error: UserError) -> LintFinding:
    where = error.where or display_path(recipe.script)
    return LintFinding(step_id(recipe), rule, where, error.what, error.remedy or "")


def _of_step(recipe: Recipe, types: Types | None) -> list[LintFinding]:
    configs, broken = {}, []
    for name in recipe.configs():
        try:
            configs[name] = shipped(recipe, name)
        except UserError as error:
            broken += [_of_error(recipe, "config", each) for each in _each(error)]
    step = _Step(recipe, types, configs)
    return [*(finding for rule in _RULES for finding in rule(step)), *broken]


def _files(step: _Step) -> Iterator[LintFinding]:
    recipe, spec, folder = step.recipe, step.recipe.spec, display_path(step.recipe.folder)
    if not (recipe.folder / "README.md").is_file():
        yield step.found("readme", folder, "README.md is missing", "say what the step is for, and how it is run")
    names = recipe.configs()
    if spec.config_default not in names:
        yield step.found("config", step.header("config", "default"), f"there is no config '{spec.config_default}'")
    if TINY not in names and spec.kind not in _WITHOUT_TINY:
        remedy = "one that ends soon on a CPU shows that the step works"
        yield step.found("config", display_path(recipe.config_dir), f"there is no config '{TINY}'", remedy)
    if not spec.description:
        yield step.found("header", step.header(), "description is missing", "one sentence, for lists")


def _known_types(step: _Step) -> Iterator[LintFinding]:
    if step.types is None:
        return
    for table, artifacts in (("consumes", step.recipe.spec.consumes), ("produces", step.recipe.spec.produces)):
        for number, each in enumerate(artifacts):
            if each.type not in step.types:
                remedy = did_you_mean(each.type, step.types.names()) or "declare it in recipes/steps/types.toml"
                yield step.found("type", step.header(table, number, "type"), f"unknown type '{each.type}'", remedy)


def _parameters(step: _Step) -> Iterator[LintFinding]:
    for number, each in enumerate(step.recipe.spec.parameters):
        where = step.header("parameters", number, "name")
        if step.configs and not _is_key(step, each.name):
            near = did_you_mean(each.name, _keys(step))
            yield step.found("parameter", where, f"parameter '{each.name}' is a key of none of the configs", near)
        for config in step.configs.values():
            value = config.values.get(each.name)
            is_default = config.name == step.recipe.spec.config_default
            if value is None or value == MANDATORY:
                if each.required and not is_default and each.name in config.values:
                    what = f"{each.name} has no value in '{config.name}', and the recipe needs one"
                    yield step.found("parameter", config.place(each.name) or where, what)
            elif not _refers(value) and (wrong := wrong_with(each, value)):
                what = f"{each.name} {wrong.what}"
                yield step.found(
                    "parameter", config.place(each.name) or where, what, f"{wrong.remedy or 'see'} {where}"
                )


def _models(step: _Step) -> Iterator[LintFinding]:
    parameters = {each.name: each for each in step.recipe.spec.parameters}
    for number, each in enumerate(step.recipe.spec.models):
        where = step.header("models", number, "parameter")
        if step.configs and not _is_key(step, each.parameter):
            near = did_you_mean(each.parameter, _keys(step))
            yield step.found("model", where, f"'{each.parameter}' is a key of none of the configs", near)
        parameter = parameters.get(each.parameter)
        if parameter is not None and parameter.choices and each.name not in parameter.choices:
            near = did_you_mean(each.name, map(str, parameter.choices))
            what = f"model '{each.name}' is none of the choices of {each.parameter}"
            yield step.found("model", step.header("models", number, "name"), what, near)


def _is_key(step: _Step, name: str) -> bool:
    return name.startswith("run.env.") or any(config.has(name) for config in step.configs.values())


def _keys(step: _Step) -> set[str]:
    return {key for config in step.configs.values() for key in config.values}


def _refers(value: Any) -> bool:
    """True if what a value is depends on others."""
    return isinstance(value, str) and "${" in value


def _placeholders(step: _Step) -> Iterator[LintFinding]:
    """What somebody has to fill in may be left open by `???` alone, and only where a value is declared to be needed.

    An input that is optional may be needed by a configuration other than the default one.
    """
    spec = step.recipe.spec
    if any(each.type == _TEMPLATES for each in spec.produces):
        return
    parameters = [each.name for each in spec.parameters if each.required]
    for config in step.configs.values():
        usual = config.name == spec.config_default
        inputs = [f"run.{each.name}" for each in spec.consumes if each.required or not usual]
        open_keys = [*inputs, *parameters]
        for key, value in config.values.items():
            text = _placeholder_in(key, value)
            where = config.place(key) or display_path(step.recipe.config_dir)
            if text == MANDATORY and not any(key == each or key.startswith(f"{each}.") for each in open_keys):
                remedy = "give it a value; or declare it as a required input or parameter"
                yield step.found("placeholder", where, f"{key} is {MANDATORY} in '{config.name}'", remedy)
            elif text == MANDATORY and config.name == TINY:
                yield step.found("placeholder", where, f"{key} is {MANDATORY} in '{TINY}', which runs by itself")
            elif text and text != MANDATORY:
                remedy = f"{MANDATORY} where a value has to be given, else a value that is right"
                yield step.found("placeholder", where, f"{key} is a placeholder: {text!r}", remedy)


def _placeholder_in(key: str, value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return next(filter(None, (_placeholder_in(key, each) for each in value)), "")
    if isinstance(value, Mapping):
        return next(filter(None, (_placeholder_in(key, each) for each in value.values())), "")
    if not isinstance(value, str) or value == MANDATORY:
        return value if value == MANDATORY else ""
    return value if _PLACEHOLDER.search(value) and value not in _SPECIAL_TOKENS else ""


_RULES: tuple[Callable[[_Step], Iterator[LintFinding]], ...] = (
    _files,
    _known_types,
    _parameters,
    _models,
    _placeholders,
)


def _graph(recipes: Sequence[Recipe], types: Types | None) -> Iterator[LintFinding]:
    """Steps that nothing leads to, and conversions by steps that there are not."""
    if types is None:
        return
    known = {step_id(recipe): recipe for recipe in recipes}
    for ident in Graph(map(step_of, recipes), types).unreachable():
        step = _Step(known[ident], types)
        remedy = "no step and nobody else makes what it takes: another type, or required = false"
        yield step.found(
            "unreachable", step.header("consumes", 0), "it can never run: what it needs is made of itself alone", remedy
        )
    for name in types.names():
        for conversion in types.get(name).convert_to:
            if conversion.step not in known:
                what = f"[{name}] is converted by '{conversion.step}', which is no step"
                yield LintFinding("", "types", types.get(name).where, what, did_you_mean(conversion.step, known) or "")
