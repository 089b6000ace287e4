"""`nemotron steps show`: what a step is, takes and makes, its configurations and parameters, and lines to type."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from nemo_runspec.catalog import Recipe
from nemo_runspec.planning.shipped import MANDATORY, Shipped, changes, shipped
from nemo_runspec.runspec import ArtifactSpec, Parameter, Runspec
from nemo_runspec.steps import find_step, step_id
from nemo_runspec.text import count
from nemotron.cli.commands.steps.examples import examples
from nemotron.cli.forms import print_json
from nemotron.cli.recipe_help import config_summary
from nemotron.cli.tables import Cell
from nemotron.cli.text import paint, table

_CHANGES = 6
"""How many changed values of a configuration are shown; `--json` has all of them."""

_LONGEST = 32
"""Characters of a value that are shown."""

_Rows = list[tuple[Cell, ...]]


def call(id: str, as_json: bool) -> int:
    """Prints what a step is.

    Raises:
        UserError: there is none of that identifier, or its header or a configuration cannot be read.
    """
    recipe = find_step(id)
    configs = {name: shipped(recipe, name) for name in recipe.configs()}
    if as_json:
        print_json(_as_json(recipe, configs))
    else:
        print("\n".join(_page(recipe, configs)))
    return 0


def _page(recipe: Recipe, configs: Mapping[str, Shipped]) -> list[str]:
    spec, default = recipe.spec, configs.get(recipe.spec.config_default)
    lines = [paint(step_id(recipe), "bold"), *table([(spec.description,)]), *table(_about(recipe))]
    sections: list[tuple[str, _Rows]] = [
        ("Takes", [_artifact_row(each) for each in spec.consumes]),
        ("Makes", [_artifact_row(each) for each in spec.produces]),
        ("Configurations (-c)", [_config_row(recipe, each, default) for each in configs.values()]),
        ("Parameters", [_parameter_row(each, default) for each in spec.parameters]),
        ("Models", [(each.name, _gpus(each.min_gpus), each.description) for each in spec.models]),
        ("Known errors", [(each.pattern, _cause(each.cause, each.remedy)) for each in spec.errors]),
    ]
    for title, rows in sections:
        if rows:
            lines += ["", paint(title, "bold"), *table(rows)]
    found = examples(recipe)
    lines += ["", paint("Examples", "bold"), *(f"  {line}" for line in found.lines)]
    if found.missing:
        lines += table([(f"profiles that your env.toml lacks are written by {found.writer}",)])
    return lines


def _about(recipe: Recipe) -> _Rows:
    spec = recipe.spec
    rows = {
        "tags": ", ".join(spec.tags),
        "runs on": _resources(spec),
        "image": spec.image or "",
        "packages": f"{count(len(spec.dependencies), 'package')}, made once by uv where there is no image"
        + (f": {spec.download}" if spec.download else "")
        if spec.dependencies
        else "",
        "script": str(recipe.script),
    }
    return [(label, text) for label, text in rows.items() if text]


def _resources(spec: Runspec) -> str:
    nodes = count(spec.nodes, "node") if spec.nodes is not None else ""
    gpus = _gpus(spec.gpus_per_node) if spec.gpus_per_node is not None else ""
    if nodes and spec.gpus_per_node:
        gpus += " each" if (spec.nodes or 0) > 1 else ""
    shape = " with ".join(filter(None, (nodes, gpus))) if spec.gpus_per_node else nodes and f"{nodes}, no GPU needed"
    started = "" if spec.launch == "direct" else f"started by {spec.launch}"
    return ", ".join(filter(None, (shape, started)))


def _gpus(number: int) -> str:
    return count(number, "GPU") if number else ""


def _cause(cause: str, remedy: str) -> str:
    return f"{cause}\nfix: {remedy}" if remedy else cause


def _artifact_row(each: ArtifactSpec) -> tuple[Cell, ...]:
    return f"run.{each.name}", f"{each.type}{'' if each.required else '?'}", each.description


def _config_row(recipe: Recipe, config: Shipped, default: Shipped | None) -> tuple[Cell, ...]:
    summary = config_summary(recipe, config.name)
    if default is None or config is default:
        return config.name, "\n".join(filter(None, (summary, _needs(config.values))))
    changed = {key: each for key, each in changes(config, default).items() if each[1] != MANDATORY}
    known = [parameter.name for parameter in recipe.spec.parameters]
    first = sorted(changed, key=lambda key: (known.index(key) if key in known else len(known)))
    shown = [f"{key}={value_text(changed[key][1])}" for key in first if key in config.values][:_CHANGES]
    more = len(changed) - len(shown)
    rest = f"… and {count(more, 'more value')}" if more > 0 else ""
    return config.name, "\n".join(
        filter(None, (summary, _needs(config.values, default.values), "  ".join(shown), rest))
    )


def _needs(values: Mapping[str, Any], already: Mapping[str, Any] = MappingProxyType({})) -> str:
    """What has to be given, but for what the default configuration says to be given already."""
    needed = [key for key, value in values.items() if value == MANDATORY and already.get(key) != MANDATORY]
    return f"needs {', '.join(needed)}" if needed else ""


def value_text(value: Any) -> str:
    """A value, short."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _parameter_row(each: Parameter, default: Shipped | None) -> tuple[Cell, ...]:
    there = default is not None and each.name in default.values
    value = value_text(default.values[each.name]) if there and default is not None else ""
    if value == MANDATORY or (each.required and value in ("", "null")):
        value = "to be given"
    return each.name, value, each.about


def _as_json(recipe: Recipe, configs: Mapping[str, Shipped]) -> dict[str, Any]:
    spec, default = recipe.spec, configs.get(recipe.spec.config_default)
    return {
        "id": step_id(recipe),
        "description": spec.description,
        "kind": spec.kind,
        "tags": list(spec.tags),
        "script": str(recipe.script),
        "image": spec.image,
        "launch": spec.launch,
        "dependencies": list(spec.dependencies),
        "resources": {"nodes": spec.nodes, "gpus_per_node": spec.gpus_per_node},
        "consumes": _tables(spec.consumes),
        "produces": _tables(spec.produces),
        "configs": [_config_json(recipe, each, default) for each in configs.values()],
        "parameters": [
            {**asdict(each), "default": default.values.get(each.name) if default else None} for each in spec.parameters
        ],
        "models": _tables(spec.models),
        "errors": _tables(spec.errors),
        "examples": list(examples(recipe).lines),
    }


def _tables(items: Iterable[Any]) -> list[dict[str, Any]]:
    return [asdict(item) for item in items]


def _config_json(recipe: Recipe, config: Shipped, default: Shipped | None) -> dict[str, Any]:
    found = changes(config, default) if default else {}
    return {
        "name": config.name,
        "description": config_summary(recipe, config.name),
        "needs": [key for key, value in config.values.items() if value == MANDATORY],
        "changes": {key: pair[1] for key, pair in found.items()},
    }
