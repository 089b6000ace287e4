"""Commands that are folders: families, groups and recipes of the catalog, each looked at when it is named."""

from __future__ import annotations

from nemo_runspec import catalog
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.runspec_keys import PIPE
from nemotron.cli.click import Command, Context, TyperGroup
from nemotron.cli.strict import StrictGroup
from nemotron.cli.text import literal

RECIPES_PANEL = "Recipes"


class FolderGroup(StrictGroup):
    """A family or a group of recipes: its commands are the folders below it."""

    def __init__(self, path: str) -> None:
        super().__init__(
            name=path.rsplit("/", 1)[-1],
            help=literal(catalog.group_summary(path) or f"Recipes of {path}."),
            no_args_is_help=True,
            rich_help_panel=RECIPES_PANEL,
            context_settings={"help_option_names": ["--help", "-h"]},
        )
        self.path = path

    def list_commands(self, ctx: Context) -> list[str]:
        """Names, in the order of the help."""
        return catalog.children(self.path)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The command of that name, or None."""
        return recipe_or_group(f"{self.path}/{cmd_name}")

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """The command the first word names; an unknown one is an error with a suggestion."""
        return resolve(self, ctx, args, self.path)


def resolve(
    group: TyperGroup, ctx: Context, args: list[str], prefix: str
) -> tuple[str | None, Command | None, list[str]]:
    """The command that the first word names in a group, its name, and the other words.

    Args:
        prefix: the group's folder, '' for the root.

    Raises:
        UserError: there is none of that name.
    """
    name = args[0]
    command = group.get_command(ctx, name)
    if command is None and ctx.resilient_parsing:
        return None, None, args
    if command is None:
        known = group.list_commands(ctx)
        recipes = [r.command for r in catalog.find_recipes()]
        raise UserError(
            f"no command '{' '.join([*prefix.split('/'), name]).strip()}'",
            remedy=did_you_mean(name, known) or did_you_mean(name, recipes) or f"commands here: {', '.join(known)}",
        )
    path = f"{prefix}/{name}".lstrip("/")
    if isinstance(command, FolderGroup) and catalog.recipe_at(path):
        below = args[1:] and args[1] in command.list_commands(ctx)
        command = command if below else _recipe(path)
    return name, command, args[1:]


def recipe_or_group(path: str) -> Command | None:
    """The command of a folder of the catalog, None where it is none."""
    if ".." in path.split("/") or path.startswith("/") or path.split("/")[0] == catalog.STEPS:
        return None
    if catalog.children(path):
        return FolderGroup(path)
    return _recipe(path)


def _recipe(path: str) -> Command | None:
    recipe = catalog.recipe_at(path)
    if recipe is None:
        return None
    if recipe.problem() is None and recipe.spec.kind == PIPE:
        from nemotron.cli.recipes.pipe_recipe import PipeCommand

        return PipeCommand(recipe)
    from nemotron.cli.recipes.recipe import RecipeCommand

    return RecipeCommand(recipe)
