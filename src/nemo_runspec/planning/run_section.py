"""The `run` section before the command line: defaults, header, YAML and profile joined, each value with its source."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from nemo_runspec.catalog import Recipe
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.field import OPEN_TYPES
from nemo_runspec.planning.container_build import taken_of
from nemo_runspec.plans.model import BUNDLED
from nemo_runspec.profiles.envfile import EnvFile
from nemo_runspec.profiles.fieldset import FieldSet, fields_of, owners_of
from nemo_runspec.profiles.interpolate import escape
from nemo_runspec.profiles.layers import JOINED_KEYS, overlay
from nemo_runspec.profiles.profile import Profile, one_or_all, system_section
from nemo_runspec.profiles.system import SYSTEM_SECTIONS
from nemo_runspec.source import Layer, Source, display_path

DEFAULT = Source(Layer.DEFAULT)
AUTO = Source(Layer.AUTO, text="automatic")


@dataclass
class RunSection:
    """The joined section: `values` as nested tables, `sources` by dotted path below `run`."""

    values: dict[str, Any]
    sources: dict[str, Source]
    open_tables: tuple[str, ...]


@dataclass
class _Layer:
    values: dict[str, Any]
    sources: dict[str, Source]


def join_run_section(
    recipe: Recipe,
    executor: str,
    yaml_run: Mapping[str, Any],
    yaml_sources: Mapping[str, Source],
    profile: Profile | None,
    env_file: EnvFile | None,
) -> RunSection:
    """Joins the layers under the command line.

    Args:
        yaml_run: the composed YAML's `run`.
        yaml_sources: by dotted path with the `run.` prefix.
        env_file: the env file in force, for its system sections; they count without a profile too.

    Raises:
        UserError: keys in the YAML's `run.env` that no executor has, all at once.
    """
    fields = fields_of(executor)
    env = _join_env(recipe, fields, yaml_run.get("env") or {}, yaml_sources, profile)
    wandb = _system_layer("wandb", yaml_run.get("wandb") or {}, yaml_sources, env_file)
    artifacts = _system_layer("artifacts", yaml_run.get("artifacts") or {}, yaml_sources, env_file)
    if artifacts.values["backend"] is None:
        artifacts.values["backend"] = "file"
    values = {k: deepcopy(v) for k, v in yaml_run.items() if k not in ("env", "wandb", "artifacts")}
    sources = {p[4:]: s for p, s in yaml_sources.items() if p.startswith("run.") and p.split(".")[1] in values}
    for name, layer in (("env", env), ("wandb", wandb), ("artifacts", artifacts)):
        values[name] = layer.values
        sources.update({f"{name}.{path}": source for path, source in layer.sources.items()})
    for spec in (*recipe.spec.consumes, *recipe.spec.produces):
        _open_artifact(values, sources, spec.name)
    tables = tuple(f"env.{f.name}" for f in fields.fields.values() if f.type in OPEN_TYPES)
    return RunSection(values, sources, tables)


def _join_env(
    recipe: Recipe, fields: FieldSet, yaml_env: Any, yaml_sources: Mapping[str, Source], profile: Profile | None
) -> _Layer:
    if not isinstance(yaml_env, Mapping):
        raise UserError("run.env must be a table", where=_place(yaml_sources, "run.env"))
    values = fields.defaults()
    layer = _Layer(values, dict.fromkeys(values, DEFAULT))
    _put(layer, _header(recipe, fields))
    yaml_layer = _yaml_env(fields, yaml_env, yaml_sources)
    _put(layer, yaml_layer)
    if profile is not None:
        before = layer.values
        taken, sources = taken_of(recipe, profile)
        values = escape(taken)
        if "mounts" in values:
            values["mounts"] = escape(taken["mounts"], keep="auto_mount:")
        _put(layer, _Layer(values, sources))
        joined = overlay(before, {k: v for k, v in values.items() if k in JOINED_KEYS})
        layer.values.update({k: joined[k] for k in JOINED_KEYS if k in joined})
        for path, source in yaml_layer.sources.items():
            if path.split(".")[0] in JOINED_KEYS:
                layer.sources.setdefault(path, source)
        mounts = yaml_layer.sources.get("mounts")
        if mounts is not None and "mounts" in values:
            layer.sources["mounts"] = replace(layer.sources["mounts"], text=f"and {mounts.place()}")
    layer.values["executor"] = fields.executor
    layer.sources.setdefault("executor", DEFAULT)
    return layer


def _header(recipe: Recipe, fields: FieldSet) -> _Layer:
    spec = recipe.spec
    shown = display_path(recipe.script)
    said = {
        "nodes": (spec.nodes, "resources.nodes"),
        "gpus_per_node": (spec.gpus_per_node, "resources.gpus_per_node"),
        "container_image": (spec.image, "image"),
    }
    values = {k: v for k, (v, _) in said.items() if v is not None and k in fields.fields}
    lines = {k: spec.lines.get(f"tool.runspec.{said[k][1]}") for k in values}
    return _Layer(values, {k: Source(Layer.RUNSPEC, shown, lines[k]) for k in values})


def _yaml_env(fields: FieldSet, yaml_env: Mapping[str, Any], sources: Mapping[str, Source]) -> _Layer:
    layer = _Layer({}, {})
    problems = []
    for key, value in yaml_env.items():
        name = fields.canonical(str(key))
        if name is None:
            if not owners_of(str(key)):
                problems.append(
                    UserError(
                        f"unknown key 'run.env.{key}'",
                        where=_place(sources, f"run.env.{key}"),
                        remedy=did_you_mean(str(key), fields.spellings),
                    )
                )
        elif name in layer.values:
            problems.append(
                UserError(
                    f"'run.env.{key}' and another spelling of '{name}' are both set",
                    where=_place(sources, f"run.env.{key}"),
                    remedy=f"keep one; the canonical spelling is '{name}'",
                )
            )
        elif name != "extends" and value is not None:
            layer.values[name] = value
            layer.sources.update(_renamed(sources, str(key), name))
    if problems:
        raise one_or_all("run.env of the recipe's YAML has", problems)
    return layer


def _renamed(sources: Mapping[str, Source], key: str, name: str) -> dict[str, Source]:
    old = f"run.env.{key}"
    return {name + p[len(old) :]: s for p, s in sources.items() if p == old or p.startswith(f"{old}.")}


def _put(layer: _Layer, above: _Layer) -> None:
    for key in above.values:
        layer.sources = {p: s for p, s in layer.sources.items() if p != key and not p.startswith(f"{key}.")}
    layer.values = {**layer.values, **above.values}
    layer.sources.update(above.sources)


def _system_layer(
    name: str,
    yaml_table: Any,
    yaml_sources: Mapping[str, Source],
    env_file: EnvFile | None,
) -> _Layer:
    """Defaults, then the YAML's `run.<name>`, then the env file's `[<name>]`, key by key."""
    if not isinstance(yaml_table, Mapping):
        raise UserError(f"run.{name} must be a table", where=_place(yaml_sources, f"run.{name}"))
    layer = _Layer({f.name: None for f in SYSTEM_SECTIONS[name]}, {})
    layer.sources = dict.fromkeys(layer.values, DEFAULT)
    _put(layer, _Layer(dict(yaml_table), {}))
    prefix = f"run.{name}."
    layer.sources.update({p[len(prefix) :]: s for p, s in yaml_sources.items() if p.startswith(prefix)})
    if env_file is not None:
        section: dict[str, Any] = escape(system_section(env_file, name))
        _put(layer, _Layer(section, {k: env_file.source(name, k) for k in section}))
    return layer


def _open_artifact(values: dict[str, Any], sources: dict[str, Source], name: str) -> None:
    """`run.<name>` is always a table with `artifact` and `path`; a plain string names the one or the other."""
    given = values.get(name)
    source = sources.pop(name, DEFAULT)
    table: dict[str, Any] = dict(given) if isinstance(given, Mapping) else as_artifact(given)
    values[name] = {"artifact": None, "path": None, **table}
    for key in values[name]:
        sources.setdefault(f"{name}.{key}", source)


def as_artifact(given: Any) -> dict[str, Any]:
    """`run.data=NAME`, `run.data=/some/path` or `run.data=bundle:some/file` as the table they stand for."""
    if not isinstance(given, str) or not given:
        return {}
    return {"path": given} if "/" in given or given.startswith(BUNDLED) else {"artifact": given}


def _place(sources: Mapping[str, Source], path: str) -> str | None:
    source = sources.get(path) or next((s for p, s in sources.items() if p.startswith(f"{path}.")), None)
    return source.place() if source else None
