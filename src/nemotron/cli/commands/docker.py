"""`nemotron docker build`: the image of a recipe, from the Dockerfile in its folder."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

from nemo_runspec.catalog import STEPS, Recipe, find_recipe, find_recipes
from nemo_runspec.errors import UserError
from nemo_runspec.planning.container_build import KIND
from nemo_runspec.source import display_path
from nemotron.cli.click import Command, Context, TyperOption
from nemotron.cli.commands.build import argument, command, group, option
from nemotron.cli.text import colour_wanted, literal

_FILE = "Dockerfile"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def make(help_text: str) -> Command:
    """The group."""
    recipe = argument("recipe", "A recipe, such as nano3/pretrain, or its words.", complete=_complete, many=True)
    return group(
        "docker",
        help_text,
        command(
            "build",
            "Build the Dockerfile of a recipe's folder, with that folder as its context.",
            _build,
            recipe,
            option("--tag", "The image's name; by default nemotron/RECIPE:latest, with dashes.", value="NAME"),
            _build_argument(),
            option("--no-cache", "Build every step again."),
            option("--pull", "Look for a newer base image."),
        ),
    )


def _build_argument() -> TyperOption:
    return TyperOption(
        param_decls=["build_arg", "--build-arg"],
        type=str,
        multiple=True,
        metavar="KEY=VALUE",
        help=literal("A value for an ARG of the Dockerfile; KEY alone takes it from the environment. May be repeated."),
        show_default=False,
    )


def _build(recipe: tuple[str, ...], tag: str | None, build_arg: Iterable[str], no_cache: bool, pull: bool) -> int:
    from nemo_runspec.backends.docker.build import BuildRequest, build_image

    found = _find("/".join(word.strip("/") for word in recipe))
    _require_dockerfile(found)
    name = tag or default_tag(found)
    request = BuildRequest(found.folder, name, _arguments(build_arg), no_cache=no_cache, pull=pull)
    failure = build_image(request, _write)
    if failure is not None:
        print(f"{name}: the build failed: {failure}", file=sys.stderr)
        return 1
    print(f"{name}: built from {display_path(found.folder / _FILE)}")
    return 0


def default_tag(recipe: Recipe) -> str:
    """`nemotron/nano3-pretrain:latest`, of `omni3/build/sft` `nemotron/omni3-sft:latest`, in small letters."""
    path = recipe.path.replace("/build/", "/") if recipe.spec.kind == KIND else recipe.path
    return f"nemotron/{path.replace('/', '-').lower()}:latest"


def _find(path: str) -> Recipe:
    """The recipe of that path; a step also by its identifier alone."""
    steps = {recipe.path for recipe in find_recipes() if recipe.is_step}
    return find_recipe(f"{STEPS}/{path}" if f"{STEPS}/{path}" in steps else path)


def _require_dockerfile(recipe: Recipe) -> None:
    file = recipe.folder / _FILE
    if not file.is_file():
        raise UserError(
            f"{recipe.path} has no Dockerfile", where=str(file), remedy="write one there, or use the recipe's image"
        )


def _arguments(given: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or (not equals and key not in os.environ):
            raise UserError(f"--build-arg {text}: not KEY=VALUE, and no variable of the environment")
        found[key] = value if equals else os.environ[key]
    return found


def _write(text: str) -> None:
    """The build's own text; the engine colours what a step writes to its error stream."""
    sys.stdout.write(text if colour_wanted(sys.stdout) else _COLOUR.sub("", text))
    sys.stdout.flush()


def _complete(_ctx: Context, _param: object, incomplete: str) -> list[str]:
    return [recipe.path for recipe in find_recipes() if recipe.path.startswith(incomplete)]
