"""Caches what the plans of one sweep have in common: the job bundle and the code packages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nemo_runspec.catalog import Recipe
from nemo_runspec.packaging.bundle import make_bundle
from nemo_runspec.packaging.project_context import ProjectContext
from nemo_runspec.packaging.summary import summarise_package
from nemo_runspec.plans.model import Bundle, Package


class Shared:
    """Looks at files and git once, however many plans ask. Keep one only for as long as the plans are being made."""

    def __init__(self) -> None:
        self._bundles: dict[str, Bundle] = {}
        self._packages: dict[str, Package] = {}

    def bundle(self, recipe: Recipe) -> Bundle:
        """As `make_bundle`."""
        key = str(recipe.script)
        if key not in self._bundles:
            self._bundles[key] = make_bundle(recipe)
        return self._bundles[key]

    def package(self, env: Mapping[str, Any], executor: str, context: ProjectContext) -> Package:
        """As `summarise_package`; made anew where any of the keys it reads is different."""
        read = {key: value for key, value in env.items() if key.startswith("packager") or key == "dirty"}
        key = json.dumps([read, executor, _key(context)], sort_keys=True, default=str)
        if key not in self._packages:
            self._packages[key] = summarise_package(env, executor, context)
        return self._packages[key]


def _key(context: ProjectContext) -> list[str]:
    return [str(context.folder), str(context.env_file), str(context.config), context.bundle.digest]
