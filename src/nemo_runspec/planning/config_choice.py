"""Which YAML a call means: one of the recipe's configs, or a file of the user's own."""

from __future__ import annotations

from pathlib import Path

from nemo_runspec.catalog import Recipe
from nemo_runspec.config.yaml_file import YamlChoice
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.paths import expanded
from nemo_runspec.source import COMMAND_LINE


def choose_yaml(recipe: Recipe, config: str | None) -> YamlChoice | None:
    """The YAML a `-c` value names: a path if it has a slash or ends in .yaml, else a config of the recipe.

    Raises:
        UserError: no such file or config; or a script without configs was given one.
    """
    if config is not None and ("/" in config or config.endswith((".yaml", ".yml"))):
        return _yaml_at(expanded(config).absolute(), config, recipe)
    if not recipe.spec.has_config:
        if config is not None:
            raise UserError(
                f"{recipe.script.name} declares no configs, so '{config}' names none",
                remedy="give a path: -c ./my.yaml, or add [tool.runspec] to the script",
            )
        return None
    names = recipe.configs()
    if not names and config is None and not recipe.spec.config_declared:
        return None
    name = config or recipe.spec.config_default
    if name not in names:
        have = f"configs of {recipe.path}: {', '.join(names)}" if names else f"{recipe.path} has no configs"
        near = did_you_mean(name, names)
        raise UserError(
            f"no config '{name}'", where=str(recipe.config_dir), remedy=f"{near}  ({have})" if near else have
        )
    return YamlChoice(name, recipe.config_dir)


def takes_no_config(recipe: Recipe, key: str) -> UserError:
    """That a key was given to a script which has no configuration."""
    return UserError(
        f"{recipe.script.name} takes no config, so nothing reads '{key}'",
        where=COMMAND_LINE,
        remedy="arguments for the script itself come after --; a config is named with -c FILE.yaml",
    )


def _yaml_at(path: Path, shown: str, recipe: Recipe) -> YamlChoice:
    if path.suffix == ".yml":
        raise UserError(f"Hydra reads .yaml files only: {shown}", where=shown, remedy="rename it to .yaml")
    path = path if path.suffix == ".yaml" else path.with_name(path.name + ".yaml")
    if not path.is_file():
        raise UserError(
            f"no such config file: {shown}", where=str(path), remedy="-c NAME picks one of the recipe's own"
        )
    search = (recipe.config_dir,) if recipe.spec.has_config else ()
    return YamlChoice(path.stem, path.parent, search)
