"""Completes profiles, configs, files, overrides and their values after TAB. An error offers nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_runspec.errors import UserError

if TYPE_CHECKING:
    from nemo_runspec.catalog import Recipe
    from nemo_runspec.field import Field
    from nemotron.cli.click import CompletionItem, Context

Completion = Callable[[Any, Any, str], list[Any]]

PROFILE_KEYS = "run.env."

TYPED = "nemotron.typed"
"""Stands in the context of a command that names its recipe by an argument: the words that were typed so far."""


def profiles(ctx: Context, _param: Any, incomplete: str) -> list[str]:
    """Profiles of the env file in force."""
    return [name for name in profile_names() if name.startswith(incomplete)]


def configs(ctx: Context, param: Any, incomplete: str) -> list[Any]:
    """Configs of the command's recipe, and YAML files where a path is begun."""
    recipe = _recipe_of(ctx)
    found: list[Any] = [name for name in (recipe.configs() if recipe else []) if name.startswith(incomplete)]
    return found or yaml_files(ctx, param, incomplete)


def overrides(ctx: Context, _param: Any, incomplete: str) -> list[Any]:
    """Keys of the chosen config and of the executor, each with its `=`; behind that, the values that there are."""
    key, equals, _ = incomplete.partition("=")
    if equals:
        return [f"{key}={value}" for value in _values(ctx, key) if f"{key}={value}".startswith(incomplete)]
    recipe = _recipe_of(ctx)
    return [going_on(f"{key}=") for key in override_keys(recipe, ctx.params) if key.startswith(incomplete)]


def files(ctx: Context, param: Any, incomplete: str) -> list[CompletionItem]:
    """Files of any kind."""
    return _files()(ctx, param, incomplete)


def scripts(ctx: Context, param: Any, incomplete: str) -> list[CompletionItem]:
    """Python files."""
    return _files(".py")(ctx, param, incomplete)


def yaml_files(ctx: Context, param: Any, incomplete: str) -> list[CompletionItem]:
    """YAML files."""
    return _files(".yaml", ".yml")(ctx, param, incomplete)


def plans(ctx: Context, param: Any, incomplete: str) -> list[CompletionItem]:
    """Saved plans."""
    return _files(".json")(ctx, param, incomplete)


def env_files(ctx: Context, param: Any, incomplete: str) -> list[CompletionItem]:
    """TOML files."""
    return _files(".toml")(ctx, param, incomplete)


def executors(ctx: Context, _param: Any, incomplete: str) -> list[str]:
    """Executors that are installed."""
    from nemo_runspec.backends import known_executors

    return [name for name in known_executors() if name.startswith(incomplete)]


def tags(ctx: Context, _param: Any, incomplete: str) -> list[str]:
    """Tags of jobs there are."""
    from nemo_runspec.sweeps.overview import Overview

    found = {tag: None for entry in Overview().everything for tag in entry.tags}
    return [tag for tag in found if tag.startswith(incomplete)]


def profile_names() -> list[str]:
    """Profiles of the env file in force; empty where there is none or it cannot be read."""
    from nemo_runspec.profiles.load import env_file_in_force

    try:
        env = env_file_in_force()
    except UserError:
        return []
    return env.profiles if env else []


def override_keys(recipe: Recipe | None, params: dict[str, Any]) -> list[str]:
    """Dotted keys of the recipe's YAML (as written, without what its `defaults:` bring) and of `run.env`."""
    try:
        fields = [f"{PROFILE_KEYS}{name}" for name in _fields(params) if name != "extends"]
        lines = _config_keys(recipe, params) if recipe else ()
    except UserError:
        return []
    leaves = [key for key in lines if not any(other.startswith(f"{key}.") for other in lines)]
    return sorted({*leaves, *fields})


def _config_keys(recipe: Recipe, params: dict[str, Any]) -> Iterable[str]:
    from nemo_runspec.config.yaml_lines import yaml_key_lines

    chosen = (params.get("config") or (recipe.spec.config_default,))[0]
    return yaml_key_lines(recipe.config_dir / f"{chosen}.yaml")


def _fields(params: dict[str, Any]) -> dict[str, Field]:
    """The keys of the executor that is meant."""
    from nemo_runspec.profiles.fieldset import fields_of

    return dict(fields_of(_executor((params.get("run") or params.get("batch") or (None,))[0])).fields)


def _values(ctx: Context, key: str) -> list[str]:
    """The values a profile key may have, where they are few."""
    name = key.lstrip("+").removeprefix(PROFILE_KEYS)
    if not key.lstrip("+").startswith(PROFILE_KEYS):
        return _choices(ctx, key.lstrip("+"))
    try:
        return values_of(_fields(ctx.params).get(name), name)
    except UserError:
        return []


def values_of(field: Field | None, name: str) -> list[str]:
    """The values of a profile key, where they are few; executors and parents by what there is."""
    from nemo_runspec.backends import known_executors

    if name == "executor":
        return list(known_executors())
    if name == "extends":
        return profile_names()
    if field is None:
        return []
    return list(field.choices) or (["true", "false"] if field.type.startswith("bool") else [])


def _choices(ctx: Context, key: str) -> list[str]:
    """The values a parameter of the command's recipe may have."""
    recipe = _recipe_of(ctx)
    if recipe is None or recipe.problem():
        return []
    found = next((each for each in recipe.spec.parameters if each.name == key), None)
    if found is None:
        return []
    words = found.choices or ((True, False) if found.type == "bool" else ())
    return [str(each).lower() if isinstance(each, bool) else str(each) for each in words]


def _executor(profile: str | None) -> str:
    from nemo_runspec.backends import DEFAULT_EXECUTOR
    from nemo_runspec.profiles.executor import executor_of
    from nemo_runspec.profiles.load import env_file_in_force

    env = env_file_in_force()
    return executor_of(env, env.chain(profile)) if env and profile else DEFAULT_EXECUTOR


def _recipe_of(ctx: Context) -> Recipe | None:
    """The recipe whose command is typed; None for a script of one's own."""
    from nemotron.cli.recipes.recipe import RecipeCommand

    if isinstance(ctx.command, RecipeCommand):
        return ctx.command.recipe
    from nemo_runspec.steps import find_step

    for word in ctx.meta.get(TYPED, ()):
        try:
            return find_step(word)
        except UserError:  # an option, or the value of one
            continue
    return None


def going_on(word: str) -> CompletionItem:
    """A word that goes on."""
    from nemotron.cli.click import CompletionItem

    return CompletionItem(word, type="open")


def _files(*suffixes: str) -> Completion:
    """Files with one of these endings, all without any, and the folders to look for them in."""

    def complete(_ctx: Any, _param: Any, incomplete: str) -> list[Any]:
        from nemotron.cli.click import CompletionItem

        folder, _, begun = incomplete.rpartition("/")
        typed = incomplete[: len(incomplete) - len(begun)]
        place = Path(os.path.expandvars(Path(typed or ".").expanduser())) if folder or not typed else Path("/")
        try:
            found = sorted(place.iterdir())
        except (OSError, RuntimeError):
            return []
        shown = [path for path in found if path.name.startswith(begun) and (begun or not path.name.startswith("."))]
        names = [f"{typed}{path.name}{'/' if path.is_dir() else ''}" for path in shown if _is_meant(path, suffixes)]
        return [CompletionItem(name, type="file") for name in names]

    return complete


def _is_meant(path: Path, suffixes: tuple[str, ...]) -> bool:
    try:
        return path.is_dir() or not suffixes or path.suffix in suffixes
    except OSError:
        return False
