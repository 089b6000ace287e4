"""`nemotron run ./train.py`: a script of one's own, with or without a header."""

from __future__ import annotations

from nemo_runspec.catalog import script_of_ones_own
from nemo_runspec.paths import expanded
from nemotron.cli.click import Command, Context
from nemotron.cli.complete import scripts
from nemotron.cli.options import read_invocation, recipe_parameters
from nemotron.cli.parameters import argument
from nemotron.cli.recipes.recipe import ARGS, PassthroughCommand


def make(help_text: str) -> Command:
    """The command."""
    return _RunScript(help_text)


class _RunScript(PassthroughCommand):
    def __init__(self, help_text: str) -> None:
        script = argument("path", "A Python script; a [tool.runspec] header is optional.", complete=scripts)
        script.metavar = "SCRIPT"  # `script` is the name of --script
        super().__init__(
            "run",
            params=[script, *recipe_parameters()],
            help=f"{help_text} Everything after -- goes to the script: nemotron run ./train.py -- --lr 1e-3",
            context_settings={"help_option_names": ["--help", "-h"]},
        )

    def invoke(self, ctx: Context) -> int:
        """Runs the script; the return value is the exit code."""
        from nemotron.cli.recipes.execute import execute

        recipe = script_of_ones_own(expanded(ctx.params.pop("path")))
        return execute(recipe, read_invocation(ctx.params, ctx.meta[ARGS], recipe.configs))
