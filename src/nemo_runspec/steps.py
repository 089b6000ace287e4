"""Steps by their identifiers: a step is a recipe below `recipes/steps/`, called by its folder there."""

from __future__ import annotations

from nemo_runspec.catalog import STEPS, Recipe, find_recipes, recipe_at
from nemo_runspec.errors import UserError, did_you_mean


def step_id(recipe: Recipe) -> str:
    """Its identifier, `optimize/modelopt/quantize`."""
    return short_path(recipe.path)


def short_path(path: str) -> str:
    """A recipe's path as it is called: of a step, its identifier."""
    return path.removeprefix(f"{STEPS}/")


def category_of(ident: str) -> str:
    """The first part of an identifier."""
    return ident.partition("/")[0]


def all_steps() -> list[Recipe]:
    """Every step, sorted by identifier; those whose header cannot be read too."""
    return [recipe for recipe in find_recipes() if recipe.is_step]


def find_step(word: str) -> Recipe:
    """The step of an identifier, or of its last parts where no other step has the same: `mcq`, `modelopt/quantize`.

    Raises:
        UserError: there is none, with a suggestion; or several, which are named.
    """
    word = word.strip("/")
    exact = recipe_at(f"{STEPS}/{word}") if word and ".." not in word.split("/") else None
    if exact is not None:
        return exact
    known = {step_id(recipe): recipe for recipe in all_steps()}
    found = [ident for ident in known if ident.endswith(f"/{word}")]
    if len(found) == 1:
        return known[found[0]]
    if found:
        raise UserError(f"'{word}' may be {len(found)} steps", remedy=f"name one of {', '.join(found)}")
    raise UserError(f"no step '{word}'", remedy=_near(word, list(known)))


def _near(word: str, known: list[str]) -> str:
    if not known:
        return "there are none; recipes are run as nemotron FAMILY STAGE"
    below = [ident for ident in known if ident.startswith(f"{word}/")]
    if below:
        return f"of '{word}' there are {', '.join(below)}"
    shorter = {part: ident for ident in known for part in (ident.rpartition("/")[2], ident)}
    return did_you_mean(word, [*shorter]) or "all of them: nemotron steps list"
