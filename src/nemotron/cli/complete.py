"""What the shell offers after TAB: profiles, configs, override keys. An error offers nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nemo_runspec.errors import UserError

if TYPE_CHECKING:
    from nemo_runspec.catalog import Recipe
    from nemotron.cli.click import CompletionItem, Context


def profiles(ctx: Context, _param: Any, incomplete: str) -> list[str]:
    """Profiles of the env file in force."""
    return [name for name in profile_names() if name.startswith(incomplete)]


def configs(ctx: Context, _param: Any, incomplete: str) -> list[str]:
    """Configs of the command's recipe."""
    recipe: Recipe | None = getattr(ctx.command, "recipe", None)
    return [name for name in (recipe.configs() if recipe else []) if name.startswith(incomplete)]


def overrides(ctx: Context, _param: Any, incomplete: str) -> list[str]:
    """Keys of the chosen config and of the executor, each with its `=`."""
    recipe: Recipe | None = getattr(ctx.command, "recipe", None)
    if recipe is None or "=" in incomplete:
        return []
    return [f"{key}=" for key in override_keys(recipe, ctx.params) if key.startswith(incomplete)]


def executors(ctx: Context, _param: Any, incomplete: str) -> list[str]:
    """Executors that are installed."""
    from nemo_runspec.backends import known_executors

    return [name for name in known_executors() if name.startswith(incomplete)]


def files(ctx: Context, _param: Any, incomplete: str) -> list[CompletionItem]:
    """The shell's own files."""
    from nemotron.cli.click import CompletionItem

    return [CompletionItem(incomplete, type="file")]


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


def override_keys(recipe: Recipe, params: dict[str, Any]) -> list[str]:
    """Dotted keys of the recipe's YAML (as written, without what its `defaults:` bring) and of `run.env`."""
    from nemo_runspec.config.yaml_lines import yaml_key_lines
    from nemo_runspec.profiles.fieldset import fields_of

    try:
        chosen = (params.get("config") or (recipe.spec.config_default,))[0]
        lines = yaml_key_lines(recipe.config_dir / f"{chosen}.yaml")
        executor = _executor((params.get("run") or params.get("batch") or (None,))[0])
        fields = [f"run.env.{name}" for name in fields_of(executor).fields]
    except UserError:
        return []
    leaves = [key for key in lines if not any(other.startswith(f"{key}.") for other in lines)]
    return sorted({*leaves, *fields})


def _executor(profile: str | None) -> str:
    from nemo_runspec.profiles.executor import DEFAULT_EXECUTOR, executor_of
    from nemo_runspec.profiles.load import env_file_in_force

    env = env_file_in_force()
    return executor_of(env, env.chain(profile)) if env and profile else DEFAULT_EXECUTOR
