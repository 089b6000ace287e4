"""Pipes that ship with the recipes: all of their steps can be planned, with every configuration."""

from __future__ import annotations

import pytest
from support import REPOSITORY

from nemo_runspec.catalog import find_recipes

PIPES = [recipe for recipe in find_recipes([REPOSITORY / "recipes"]) if recipe.spec.kind == "pipe"]
CASES = [(recipe.path, config) for recipe in PIPES for config in recipe.configs()]


def test_the_families_have_one():
    assert {path.partition("/")[0] for path, _ in CASES} >= {"nano3", "super3", "ultra3"}


@pytest.mark.parametrize(("path", "config"), CASES, ids=lambda word: word)
def test_all_of_its_steps_are_planned(nemotron, project, path, config):
    done = nemotron(*path.split("/"), "-c", config, "--run", "my-cluster", "--dry-run").succeeds()
    assert done.out.endswith("nothing was submitted\n"), done.out[-500:]
