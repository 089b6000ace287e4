"""`nemotron docker build`: the image of a recipe, from the Dockerfile in its folder, as a job of this machine."""

from __future__ import annotations

from collections.abc import Iterable

from nemo_runspec.catalog import STEPS, Recipe, find_recipe, find_recipes
from nemo_runspec.errors import UserError
from nemo_runspec.planning.container_build import KIND
from nemotron.cli.click import Command, Context, TyperOption
from nemotron.cli.options import option_parameters
from nemotron.cli.parameters import argument, command, group, option
from nemotron.cli.text import literal

_FILE = "Dockerfile"
_SHARED = ("--dry-run", "--full")


def make(help_text: str) -> Command:
    """The group."""
    recipe = argument("recipe", "A recipe, such as omni3/build/rl, or its words.", complete=_complete, many=True)
    return group(
        "docker",
        help_text,
        command(
            "build",
            "Build the Dockerfile of a recipe's folder, with that folder as its context, as a job of this machine.",
            _build,
            recipe,
            option("--tag", "The image's name; by default nemotron/RECIPE:latest, with dashes.", value="NAME"),
            option("--push", "Push it to the registry that --tag names, with Docker's own login for it."),
            option("--platform", "Such as linux/amd64; by default the engine's own.", value="OS/ARCH"),
            _build_argument(),
            option("--no-cache", "Build every step again."),
            option("--pull", "Look for a newer base image."),
            *option_parameters(_SHARED),
            option(
                "--json", "The job and its image, or with --dry-run the plan, as JSON; all else on the error stream."
            ),
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


def _build(
    recipe: tuple[str, ...],
    tag: str | None,
    push: bool,
    platform: str | None,
    build_arg: Iterable[str],
    no_cache: bool,
    pull: bool,
    dry_run: bool,
    full: bool,
    as_json: bool,
) -> int:
    from nemo_runspec.backends.docker.image import ImageRequest
    from nemo_runspec.planning.container_build import own_build_arguments
    from nemo_runspec.runner.image import image_job, make_image_by_job
    from nemotron.cli.as_json import run_job
    from nemotron.cli.views import View, check_views

    views = [view for view, given in ((View.FULL, full), (View.JSON, as_json)) if given]
    view = check_views(views, dry_run)
    found = _find("/".join(word.strip("/") for word in recipe))
    _require_dockerfile(found)
    request = ImageRequest(
        recipe=found.path,
        folder=str(found.folder),
        image=_with_tag(tag or default_tag(found)),
        platform=platform,
        build_args=_arguments(own_build_arguments(found), build_arg),
        no_cache=no_cache,
        pull=pull,
        push=push,
    )
    job = image_job(request, tag_given=tag is not None)
    if dry_run:
        from nemotron.cli.dry_run.show import show_plan

        show_plan(job.planned.plan, view)
        return 0
    return run_job(lambda caller: make_image_by_job(job, caller), as_json=as_json)


def default_tag(recipe: Recipe) -> str:
    """`nemotron/nano3-pretrain:latest`, of `omni3/build/sft` `nemotron/omni3-sft:latest`, in small letters."""
    path = recipe.path.replace("/build/", "/") if recipe.spec.kind == KIND else recipe.path
    return f"nemotron/{path.replace('/', '-').lower()}:latest"


def _with_tag(name: str) -> str:
    """A name without a tag has `latest`: Docker would push all that there are."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


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


def _arguments(own: dict[str, str], given: Iterable[str]) -> tuple[str, ...]:
    """What the recipe's own config says, and over it what the command line does."""
    texts = {name: f"{name}={value}" for name, value in own.items()}
    return tuple({**texts, **{text.partition("=")[0]: text for text in given}}.values())


def _complete(_ctx: Context, _param: object, incomplete: str) -> list[str]:
    """Recipes with a Dockerfile."""
    found = (recipe for recipe in find_recipes() if recipe.path.startswith(incomplete))
    return [recipe.path for recipe in found if (recipe.folder / _FILE).is_file()]
