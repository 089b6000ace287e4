"""The command of one recipe, made from its header."""

from __future__ import annotations

from typing import Any

from nemo_runspec.catalog import Recipe
from nemo_runspec.lines import text_lines
from nemotron.cli.bare import with_profile
from nemotron.cli.click import Context
from nemotron.cli.command import OneCommand
from nemotron.cli.options import read_invocation, recipe_parameters
from nemotron.cli.text import literal
from nemotron.cli.usage import SCRIPT_ARGUMENTS

ARGS = "nemotron.args"


class PassthroughCommand(OneCommand):
    """A command whose words after `--` are kept apart, for the script."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Cuts at the first `--`; Click would drop it and mix both sides."""
        after: list[str] = []
        if "--" in args:
            cut = args.index("--")
            args, after = args[:cut], args[cut + 1 :]
        ctx.meta[ARGS] = tuple(after)
        ctx.meta[SCRIPT_ARGUMENTS] = tuple(after)
        apart = [word for text in args for word in self._apart(text)]
        return super().parse_args(ctx, apart if ctx.resilient_parsing else with_profile(apart))

    def _apart(self, text: str) -> list[str]:
        """`-c=NAME` as it looks: Click takes the `=` for a part of the value."""
        option, equals, value = text.partition("=")
        takes = {name for each in self.params for name in each.opts if not getattr(each, "is_flag", True)}
        is_short = len(option) == 2 and option[0] == "-" and option in takes
        return [option, value] if equals and is_short else [text]


class RecipeCommand(PassthroughCommand):
    """`nemotron <family> <stage…>`."""

    def __init__(self, recipe: Recipe) -> None:
        problem = recipe.problem()
        summary = f"cannot be read: {text_lines(problem)[0]}" if problem else recipe.spec.description
        super().__init__(
            recipe.path.rsplit("/", 1)[-1],
            params=recipe_parameters(),
            help=literal(summary or recipe.path),
            rich_help_panel="Recipes",
            context_settings={"help_option_names": ["--help", "-h"]},
        )
        self.recipe = recipe

    def format_help(self, ctx: Context, formatter: Any) -> None:
        """Typer's own help, then what is known of this recipe."""
        super().format_help(ctx, formatter)
        from nemotron.cli.recipe_help import print_recipe_help

        print_recipe_help(self.recipe, ctx.command_path)

    def invoke(self, ctx: Context) -> int:
        """Runs the recipe; the return value is the exit code."""
        from nemotron.cli.recipes.execute import execute

        return execute(self.recipe, read_invocation(ctx.params, ctx.meta[ARGS], self.recipe.configs))
