"""The graph of all steps, for the commands that ask it."""

from __future__ import annotations

import sys

from nemo_runspec.artifacts.graph import Graph, step_of
from nemo_runspec.artifacts.types import Types
from nemo_runspec.catalog import Recipe, find_recipes


def load_graph() -> tuple[Graph, dict[str, Recipe]]:
    """The graph, and each step's recipe by its identifier. A step with a broken header is left out, with a word.

    Raises:
        UserError: a file of types is broken.
    """
    found = {}
    for recipe in find_recipes():
        if not recipe.is_step:
            continue
        if recipe.problem() is None:
            found[step_of(recipe).id] = recipe
        else:
            print(f"{recipe.path} is left out: its header is broken; nemotron steps list says how", file=sys.stderr)
    return Graph(map(step_of, found.values()), Types.load()), found
