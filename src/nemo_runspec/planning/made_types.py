"""Whether the recipe that an input names as its maker makes something that the input takes: known before it has run."""

from __future__ import annotations

from nemo_runspec.catalog import find_recipe
from nemo_runspec.errors import UserError
from nemo_runspec.planning.references import require_type
from nemo_runspec.planning.shipped import shipped
from nemo_runspec.plans.model import Artifact


def require_made_type(item: Artifact) -> None:
    """Raises `UserError` where the artifact is of a type that the input does not take, as its recipe declares it.

    A version that was found has said its type itself. A recipe that there is not, or that makes no artifact of that
    name, says nothing of it.
    """
    if item.artifact and item.recipe and not item.version:
        require_type(item.name, item.type, _type_of(item, item.recipe), f"'{item.artifact}' of {item.recipe}")


def _type_of(item: Artifact, recipe: str) -> str:
    """The type of the output that gets the artifact's name; '' where that is not known."""
    try:
        maker = find_recipe(recipe)
        if any(output.type == item.type for output in maker.spec.produces):
            return ""  # the usual case, without its configuration
        values = shipped(maker, item.config or maker.spec.config_default).values
    except UserError:
        return ""
    outputs = (each for each in maker.spec.produces if values.get(f"run.{each.name}.artifact") == item.artifact)
    return next((each.type for each in outputs), "")
