"""`nemotron steps list | show | run`: the same recipes, by identifier."""

from __future__ import annotations

import json

from nemo_runspec.catalog import STEPS, Recipe, find_recipe, find_recipes
from nemo_runspec.errors import UserError, did_you_mean
from nemotron.cli.click import Command, Context
from nemotron.cli.commands.build import argument, command, group, option
from nemotron.cli.options import read_invocation, recipe_parameters
from nemotron.cli.recipe import ARGS, PassthroughCommand
from nemotron.cli.text import table


def make(help_text: str) -> Command:
    """The group."""
    ident = argument("id", "A step's identifier, such as sft/automodel.", complete=_complete)
    return group(
        "steps",
        help_text,
        command("list", "Every step there is.", _list, option("--json", "Machine-readable output.")),
        command("show", "What a step is: configs, inputs, outputs.", _show, ident),
        _RunStep(),
    )


class _RunStep(PassthroughCommand):
    """`steps run ID`, with the options of every recipe."""

    def __init__(self) -> None:
        ident = argument("id", "A step's identifier, such as sft/automodel.", complete=_complete)
        super().__init__("run", params=[ident, *recipe_parameters()], help="Run a step.")

    def invoke(self, ctx: Context) -> int:
        """Runs the step; the return value is the exit code."""
        from nemotron.cli.execute import execute

        recipe = _find(ctx.params.pop("id"))
        return execute(recipe, read_invocation(ctx.params, ctx.meta[ARGS]))


def _steps() -> list[Recipe]:
    return [recipe for recipe in find_recipes() if recipe.is_step]


def _find(ident: str) -> Recipe:
    known = [recipe.path.removeprefix(f"{STEPS}/") for recipe in _steps()]
    if ident not in known:
        have = f"steps: {', '.join(known)}" if known else "there are none; recipes are run as nemotron FAMILY STAGE"
        raise UserError(f"no step '{ident}'", remedy=did_you_mean(ident, known) or have)
    return find_recipe(f"{STEPS}/{ident}")


def _list(as_json: bool) -> int:
    rows = [(r.path.removeprefix(f"{STEPS}/"), r.problem() or r.spec.description) for r in _steps()]
    if as_json:
        print(json.dumps([{"id": ident, "description": text} for ident, text in rows], indent=2, ensure_ascii=False))
    else:
        print("\n".join(table(rows)) if rows else "No steps yet. Steps lie under recipes/steps/<category>/<name>/.")
    return 0


def _show(id: str) -> int:
    recipe = _find(id)
    spec = recipe.spec
    rows = [("id", id), ("description", spec.description), ("script", str(recipe.script))]
    rows += [("config", name) for name in recipe.configs()]
    rows += [("consumes", f"{a.name}: {a.type}  {a.description}") for a in spec.consumes]
    rows += [("produces", f"{a.name}: {a.type}  {a.description}") for a in spec.produces]
    print("\n".join(table(rows)))
    return 0


def _complete(_ctx: Context, _param: object, incomplete: str) -> list[str]:
    return [i for r in _steps() if (i := r.path.removeprefix(f"{STEPS}/")).startswith(incomplete)]
