"""`nemotron kit slurm`: squash files of container images, and builds of any family's images, on a cluster."""

from __future__ import annotations

from typing import Any

from nemo_runspec.catalog import Recipe, find_recipe, find_recipes
from nemo_runspec.console import note
from nemo_runspec.errors import UserError
from nemotron.cli import complete
from nemotron.cli.click import Command, Context, TyperOption
from nemotron.cli.options import read_invocation, recipe_parameters
from nemotron.cli.parameters import argument, command, group
from nemotron.cli.recipes.recipe import ARGS, PassthroughCommand
from nemotron.cli.text import literal

_BUILD = "/build/"


def make(help_text: str) -> Command:
    """The group."""
    return group("kit", help_text, group("slurm", "Container images on a Slurm cluster.", _squash_command(), _Build()))


def _squash_command() -> Command:
    return command(
        "squash",
        "Import an image of a registry into a squash file on the cluster, as a job, and stay with it.",
        _squash,
        argument("profile", "A profile of executor = slurm.", complete=complete.profiles),
        argument("image", "Such as nvcr.io/nvidia/nemo:25.09. The path of a .sqsh file is left as it is."),
        _flag("force", "Make the file again although it exists.", "--force-squash", "--force"),
        _flag("dry_run", "Show the plan on a page; do nothing.", "--dry-run", "-d"),
        _flag("full", "With --dry-run: show everything, every value and every text.", "--full"),
    )


def _flag(name: str, help_text: str, *spellings: str) -> TyperOption:
    return TyperOption(
        param_decls=[name, *spellings], is_flag=True, type=bool, default=False, help=literal(help_text),
        show_default=False,
    )  # fmt: skip


def _squash(profile: str, image: str, force: bool, dry_run: bool, full: bool) -> int:
    from nemo_runspec.runner.squash import make_squash_file, squash_job
    from nemotron.cli.console import caller
    from nemotron.cli.views import View, check_views

    view = check_views([View.FULL] if full else [], dry_run)
    job = squash_job(profile, image, force=force)
    if job is None:
        note(f"{image}: a file already; there is nothing to import")
        print(image)
        return 0
    if dry_run:
        from nemotron.cli.dry_run.show import show_plan

        show_plan(job.planned.plan, view)
        return 0
    code = make_squash_file(job, caller(), force=force)
    if code == 0:
        print(f'use it: container_image = "{job.path}"')
    return code


class _Build(PassthroughCommand):
    """`build RECIPE STAGE`: the recipe `RECIPE/build/STAGE`, with the options of every recipe command."""

    def __init__(self) -> None:
        stage = argument("part", "What of it to build, such as sft.", complete=_stages)
        stage.metavar = "STAGE"  # `stage` is the name of --stage
        words: list[Any] = [argument("recipe", "A family, such as omni3.", complete=_families), stage]
        super().__init__(
            "build",
            params=[*words, *recipe_parameters()],
            help="Build a container image of a recipe family: nemotron kit slurm build omni3 sft --run PROFILE",
            context_settings={"help_option_names": ["--help", "-h"]},
        )

    def invoke(self, ctx: Context) -> int:
        """Runs the build; the return value is the exit code."""
        from nemotron.cli.recipes.execute import execute

        recipe = _find(ctx.params.pop("recipe"), ctx.params.pop("part"))
        return execute(recipe, read_invocation(ctx.params, ctx.meta[ARGS]))


def _find(family: str, stage: str) -> Recipe:
    path = f"{family.strip('/')}{_BUILD}{stage.strip('/')}"
    known = _builds()
    if path not in known:
        have = ", ".join(" ".join(name.split(_BUILD, 1)) for name in known)
        raise UserError(f"there is nothing to build for '{family} {stage}'", remedy=f"there is: {have or 'nothing'}")
    return find_recipe(path)


def _builds() -> list[str]:
    """Paths of the recipes that build images."""
    found = [recipe for recipe in find_recipes() if _BUILD in recipe.path]
    return [recipe.path for recipe in found if recipe.problem() is None and recipe.spec.kind == "build"]


def _families(_ctx: Context, _param: object, incomplete: str) -> list[str]:
    return sorted({name for path in _builds() if (name := path.split(_BUILD, 1)[0]).startswith(incomplete)})


def _stages(ctx: Context, _param: object, incomplete: str) -> list[str]:
    prefix = f"{ctx.params.get('recipe', '')}{_BUILD}"
    return [path[len(prefix) :] for path in _builds() if path.startswith(prefix + incomplete)]
