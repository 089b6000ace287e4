"""The command of a recipe of kind `pipe`: its configs are pipelines, whose steps are other recipes."""

from __future__ import annotations

from typing import Any

from nemo_runspec.catalog import Recipe
from nemotron.cli.bare import with_profile
from nemotron.cli.click import Context
from nemotron.cli.command import OneCommand
from nemotron.cli.options import option_parameters, read_invocation
from nemotron.cli.parameters import SETTINGS, argument
from nemotron.cli.pipe_options import OPTIONS, check_full, stretch
from nemotron.cli.text import literal


class PipeCommand(OneCommand):
    """`nemotron <family> <pipe>`."""

    def __init__(self, recipe: Recipe) -> None:
        said = "KEY=VALUE is for every step, STEP:KEY=VALUE for one."
        overrides = argument("overrides", said, many=True, required=False)
        overrides.metavar = "[KEY=VALUE]..."
        super().__init__(
            recipe.path.rsplit("/", 1)[-1],
            params=[*option_parameters(OPTIONS), *stretch(_steps_of), overrides],
            help=literal(recipe.spec.description or recipe.path),
            rich_help_panel="Recipes",
            context_settings=dict(SETTINGS),
        )
        self.recipe = recipe

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """As Click's, with the profile that the environment names."""
        return super().parse_args(ctx, args if ctx.resilient_parsing else with_profile(args))

    def format_help(self, ctx: Context, formatter: Any) -> None:
        """Typer's own help, then its configs and the steps of each."""
        super().format_help(ctx, formatter)
        from nemotron.cli.recipe_help import print_pipe_help

        print_pipe_help(self.recipe, ctx.command_path)

    def invoke(self, ctx: Context) -> int:
        """Runs the pipeline; the return value is the exit code."""
        from nemotron.cli.recipes.pipelines import pipe_recipe

        values = dict(ctx.params)
        start, end = values.pop("from"), values.pop("to")
        invocation = read_invocation(values, (), self.recipe.configs)
        check_full(invocation)
        return pipe_recipe(self.recipe, invocation, start, end)


def _steps_of(ctx: Context, _param: Any, incomplete: str) -> list[str]:
    """The names of the steps of the config that is typed, or of the default one; none where it cannot be read."""
    from nemo_runspec.errors import UserError
    from nemo_runspec.pipelines.file import read_pipeline
    from nemo_runspec.planning.config_choice import choose_yaml

    assert isinstance(ctx.command, PipeCommand)
    typed = ctx.params.get("config")
    config = (typed[-1] if isinstance(typed, tuple | list) and typed else typed) or None
    try:
        choice = choose_yaml(ctx.command.recipe, config)
        steps = read_pipeline(str(choice.file)).stages if choice else ()
    except UserError:
        return []
    return [found for step in steps if (found := step.id or step.step).startswith(incomplete)]
