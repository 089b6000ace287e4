"""A recipe to begin with, made of a template: a script with its header, and two configs."""

from __future__ import annotations

import re
from pathlib import Path

from nemo_runspec.backends import get_backend
from nemo_runspec.catalog import builtin_templates, find_recipes
from nemo_runspec.errors import UserError
from nemo_runspec.profiles.envfile import EnvFile, load_env_file
from nemo_runspec.profiles.profile import resolve_profile
from nemo_runspec.source import display_path

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(/[a-z0-9][a-z0-9_-]*)*")
_TAKEN = "steps"

IMAGE = "python:3.12-slim"
"""What it runs in where its profile brings no image of its own."""


def recipe_folder(name: str, project: Path) -> Path:
    """Where a recipe of this name goes.

    Raises:
        UserError: it is no name of a recipe, or there is something already.
    """
    from nemotron.cli.builtin import COMMANDS

    if not _NAME.fullmatch(name) or name.split("/")[0] in (*COMMANDS, _TAKEN):
        raise UserError(
            f"'{name}' cannot be the name of a recipe",
            remedy="small letters, digits, - and _, with / between words, such as demo/train; no command's own name",
        )
    folder = project / "recipes" / name
    if folder.exists():
        raise UserError(f"there is {display_path(folder)} already", remedy="give the recipe another name")
    if any(recipe.path == name for recipe in find_recipes()):
        raise UserError(f"there is a recipe '{name}' already", remedy="give it another name")
    return folder


def needs_image(file: Path) -> bool:
    """True if an env file has profiles whose jobs run in the image that their recipe names."""
    env = load_env_file(file)
    return any(_of_recipe(env, name) for name in env.profiles)


def _of_recipe(env: EnvFile, name: str) -> bool:
    try:
        profile = resolve_profile(env, name)
    except UserError:  # it runs nothing as it is
        return False
    setup = get_backend(profile.executor).load_setup()
    return setup is not None and setup.image and not profile.values.get("container_image")


def write_recipe(name: str, folder: Path, *, image: bool) -> list[Path]:
    """Writes the recipe's files, and gives them.

    Args:
        image: whether its header has to name an image.
    """
    template = builtin_templates() / "recipe"
    line = f'image = "{IMAGE}"' if image else f'image = "{IMAGE}"   # where a container is wanted'
    text = (template / "train.py").read_text(encoding="utf-8")
    text = text.replace("@NAME@", name).replace("# @IMAGE@", f"# {line}" if image else f"# # {line}")
    configs = {path.name: path.read_text(encoding="utf-8") for path in sorted((template / "config").glob("*.yaml"))}
    files = {"train.py": text, **{f"config/{each}": content for each, content in configs.items()}}
    (folder / "config").mkdir(parents=True)
    for path, content in files.items():
        (folder / path).write_text(content, encoding="utf-8")
    return [folder / path for path in files]
