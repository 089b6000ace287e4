"""`nemotron steps run`."""

from __future__ import annotations

from nemo_runspec.steps import find_step
from nemotron.cli.click import Context
from nemotron.cli.commands.steps import complete
from nemotron.cli.complete import TYPED
from nemotron.cli.options import read_invocation, recipe_parameters
from nemotron.cli.parameters import argument
from nemotron.cli.recipes.recipe import ARGS, PassthroughCommand
from nemotron.cli.text import literal


class RunStep(PassthroughCommand):
    """`steps run ID`, with the options of every recipe.

    Args:
        id_help: what an identifier is.
    """

    def __init__(self, id_help: str) -> None:
        ident = argument("id", id_help, complete=complete.idents)
        super().__init__(
            "run",
            params=[ident, *recipe_parameters()],
            help=literal("Run a step, as any recipe. What it takes: nemotron steps show ID."),
            context_settings={"help_option_names": ["--help", "-h"]},
        )

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Keeps the words of a line that is being typed: with an option that has no value yet, Click reads none."""
        if ctx.resilient_parsing:
            ctx.meta[TYPED] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Context) -> int:
        """Runs the step; the return value is the exit code."""
        from nemotron.cli.recipes.execute import execute

        recipe = find_step(ctx.params.pop("id"))
        return execute(recipe, read_invocation(ctx.params, ctx.meta[ARGS], recipe.configs))
