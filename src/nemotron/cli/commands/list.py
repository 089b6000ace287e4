"""`nemotron list`: every recipe and step, with the error of one that cannot be read."""

from __future__ import annotations

import json
from typing import Any

from nemo_runspec.catalog import Recipe, find_recipes
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.lines import text_lines
from nemotron.cli.click import Command
from nemotron.cli.parameters import argument, command, option
from nemotron.cli.tables import Cell, Styled
from nemotron.cli.text import paint, table


def make(help_text: str) -> Command:
    """The command."""
    return command(
        "list",
        help_text,
        _call,
        argument("prefix", "Only recipes whose path begins with this, such as nano3.", required=False),
        option("--json", "Machine-readable output."),
    )


def _call(prefix: str | None, as_json: bool) -> int:
    recipes = _below(prefix.replace(" ", "/").strip("/")) if prefix else find_recipes()
    if as_json:
        print(json.dumps([_as_json(recipe) for recipe in recipes], indent=2, ensure_ascii=False))
        return 0
    if not recipes:
        print("No recipes. Roots: $NEMOTRON_RECIPES, the project's recipes/, the built-in ones.")
        return 0
    for title, beginning, chosen in (("Recipes", "nemotron", False), ("Steps", "nemotron steps run", True)):
        rows = [row for recipe in recipes if recipe.is_step is chosen for row in _rows(recipe, beginning)]
        if rows:
            print(f"{paint(title, 'bold')}  ({beginning} …)")
            print("\n".join(table(rows)))
    return 0


def _below(prefix: str) -> list[Recipe]:
    """The recipes whose path begins so. Raises `UserError` where there are none."""
    recipes = find_recipes()
    found = [recipe for recipe in recipes if recipe.path.startswith(prefix)]
    if not found:
        paths = [recipe.path.split("/") for recipe in recipes]
        known = {"/".join(path[:end]) for path in paths for end in range(1, len(path) + 1)}
        raise UserError(f"no recipe begins with '{prefix}'", remedy=did_you_mean(prefix, known) or "all: nemotron list")
    return found


def _rows(recipe: Recipe, beginning: str) -> list[tuple[Cell, ...]]:
    """The lines of one. `beginning`: how the commands of all of them begin, which is said above them."""
    problem, words = _problem(recipe), f"nemotron {recipe.command}".removeprefix(f"{beginning} ")
    if problem:
        first, *rest = text_lines(problem)
        return [
            (words, "", Styled(f"cannot be read: {first}", "red")),
            *(("", "", r) for r in rest),
        ]
    hides = " (hides the built-in one)" if recipe.hides else ""
    return [(words, ", ".join(recipe.configs()), f"{recipe.spec.description}{hides}")]


def _problem(recipe: Recipe) -> str | None:
    """Why a recipe cannot be used: its header, or a name that a built-in command has taken."""
    from nemotron.cli.builtin import COMMANDS

    if recipe.family in COMMANDS and not recipe.is_step:
        return f"'{recipe.family}' is a built-in command; rename the folder, or: nemotron run {recipe.script}"
    return recipe.problem()


def _as_json(recipe: Recipe) -> dict[str, Any]:
    known: dict[str, Any] = {"path": recipe.path, "command": recipe.command, "script": str(recipe.script)}
    if recipe.hides:
        known["hides"] = str(recipe.hides)
    problem = _problem(recipe)
    if problem:
        return {**known, "error": problem}
    spec = recipe.spec
    return {
        **known,
        "name": spec.name or recipe.path,
        "kind": spec.kind,
        "description": spec.description,
        "configs": recipe.configs(),
        "consumes": [{"name": a.name, "type": a.type} for a in spec.consumes],
        "produces": [{"name": a.name, "type": a.type} for a in spec.produces],
    }
