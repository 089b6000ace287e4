"""Pipes that ship with the recipes: all of their steps can be planned, with every configuration."""

from __future__ import annotations

import pytest
from support import REPOSITORY

from nemo_runspec.catalog import find_recipes
from nemo_runspec.planning.shipped import shipped

RECIPES = find_recipes([REPOSITORY / "recipes"])
PIPES = [recipe for recipe in RECIPES if recipe.spec.kind == "pipe"]
CASES = [(recipe.path, config) for recipe in PIPES for config in recipe.configs()]


def test_the_families_have_one():
    assert {path.partition("/")[0] for path, _ in CASES} >= {"nano3", "super3", "ultra3"}


@pytest.mark.parametrize(("path", "config"), CASES, ids=lambda word: word)
def test_all_of_its_steps_are_planned(nemotron, project, path, config):
    done = nemotron(*path.split("/"), "-c", config, "--run", "my-cluster", "--dry-run").succeeds()
    assert done.out.endswith("nothing was submitted\n"), done.out[-500:]


@pytest.mark.parametrize(("path", "config"), CASES, ids=lambda word: word)
def test_a_step_waits_for_what_it_reads_alone(nemotron, project, path, config):
    """What is handed to a step is said in its configuration, else it would be lineage of nothing that was read."""
    steps = nemotron(*path.split("/"), "-c", config, "--run", "my-cluster", "--dry-run", "--json").json["steps"]
    for step in steps:
        told = str(step["plan"]["config"])
        for name in step["inputs"]:
            assert step["plan"]["run"][name]["path"] in told, (step["step"], name)
        for each in step["plan"]["consumes"]:
            assert each["path"] or not each["required"], (step["step"], each["name"])


@pytest.mark.parametrize("recipe", [each for each in RECIPES if each.spec.kind != "pipe"], ids=lambda each: each.path)
def test_a_configuration_names_all_that_its_recipe_has_to_read(recipe):
    for config in recipe.configs():
        values = shipped(recipe, config).values
        for each in recipe.spec.consumes:
            named = [values.get(f"run.{each.name}.{key}") for key in ("path", "artifact")]
            assert any(named) or not each.required, (config, each.name)
