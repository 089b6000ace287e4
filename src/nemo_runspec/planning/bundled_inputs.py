"""Inputs that travel with the job, `bundle:REL`: files of the recipe's own folder, or of its family's shared code."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from nemo_runspec.catalog import Recipe
from nemo_runspec.config.compose import Composition
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.packaging.bundle import script_in_bundle
from nemo_runspec.planning.artifact_paths import Placed
from nemo_runspec.plans.model import BUNDLED, Artifact, Bundle


def check_bundled(placed: Placed, recipe: Recipe, bundle: Bundle, composition: Composition) -> None:
    """Raises `UserError` for an input of the job bundle that is not in it, and for an output there, with its place."""
    for artifact in placed.consumes:
        if artifact.is_bundled:
            _require(artifact, recipe, bundle, composition)
    for artifact in placed.produces:
        if artifact.is_bundled:
            raise UserError(
                f"output '{artifact.name}' is {artifact.path}: the job bundle is only read, never written",
                where=composition.place(f"run.{artifact.name}.path"),
            )


def _require(artifact: Artifact, recipe: Recipe, bundle: Bundle, composition: Composition) -> None:
    path = str(artifact.path).removeprefix(BUNDLED)
    known = set(_known(recipe, bundle))
    if path not in known:
        raise UserError(
            f"input '{artifact.name}' is {artifact.path}, and there is no such file in the job bundle",
            where=composition.place(f"run.{artifact.name}.path"),
            remedy=did_you_mean(path, sorted(known)) or f"such files lie below {recipe.folder}",
        )


def _known(recipe: Recipe, bundle: Bundle) -> Iterator[str]:
    """What may stand behind `bundle:`: files, and the folders they lie in."""
    folder = posixpath.dirname(script_in_bundle(recipe))
    family = posixpath.join(folder.partition("/")[0], recipe.family) if folder else ""
    for file in bundle.files:
        relative = _below(file.path, folder, family)
        while relative:
            yield relative
            relative = posixpath.dirname(relative)


def _below(path: str, folder: str, family: str) -> str:
    """A file's path below the recipe's own folder, or below a package of its family's shared code; '' for others."""
    if not folder:
        return path
    if path.startswith(f"{folder}/"):
        return path[len(folder) + 1 :]
    shared, _, rest = path.removeprefix(f"{family}/").partition("/")
    return rest.partition("/")[2] if shared.startswith("_") else ""
