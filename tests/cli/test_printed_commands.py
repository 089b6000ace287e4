"""Every command that is printed for a recipe or a step can be typed: it parses, and means that recipe."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
import yaml
from command_lines import parsed

import nemo_runspec
from nemo_runspec.api.submit import recipe_words
from nemo_runspec.catalog import Recipe, builtin_root, find_recipes
from nemo_runspec.errors import UserError
from nemo_runspec.runner.inputs import not_made, require_inputs
from nemo_runspec.steps import all_steps, find_step, step_id
from nemotron.cli.commands.steps.examples import examples
from nemotron.cli.commands.steps.loaded import load_graph
from nemotron.cli.commands.steps.run import RunStep
from nemotron.cli.options import read_invocation
from nemotron.cli.recipes.pipe_recipe import PipeCommand
from nemotron.cli.recipes.recipe import ARGS, RecipeCommand

RECIPES = find_recipes([builtin_root()])
READMES = sorted(builtin_root().rglob("README.md"))


def meant(line: str) -> Recipe:
    """The recipe that a line runs; its configuration is one of the recipe's."""
    ctx = parsed(line)
    assert isinstance(ctx.command, RecipeCommand | PipeCommand | RunStep), line
    recipe = find_step(ctx.params.pop("id")) if isinstance(ctx.command, RunStep) else ctx.command.recipe
    if isinstance(ctx.command, PipeCommand):
        assert (ctx.params.pop("from"), ctx.params.pop("to")) == (None, None), line
    read_invocation(ctx.params, ctx.meta.get(ARGS, ()), recipe.configs)
    return recipe


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.path)
def test_a_recipe_is_typed_as_it_says(recipe):
    assert meant(f"nemotron {recipe.command}") == recipe
    assert meant(shlex.join([*recipe_words(recipe.path, str(recipe.script)), "-c", recipe.configs()[0]])) == recipe


def test_a_line_that_is_no_command_is_seen():
    for line in ("nemotron steps peft automodel -c tiny", "nemotron nano3 pretrane", "nemotron steps run peft/auto"):
        with pytest.raises(UserError):
            meant(line)


def makers() -> Iterator[tuple[Recipe, str]]:
    """Every configuration that names recipes which make its inputs."""
    for recipe in RECIPES:
        for config in recipe.configs():
            text = (recipe.config_dir / f"{config}.yaml").read_text(encoding="utf-8")
            run = yaml.safe_load(text).get("run", {}) if "recipe:" in text else {}
            if any(isinstance(value, dict) and "recipe" in value for value in run.values()):
                yield recipe, config


@pytest.mark.parametrize(("recipe", "config"), list(makers()), ids=lambda each: getattr(each, "path", each))
def test_an_input_that_is_not_there_names_the_command_that_makes_it(project, recipe, config):
    plan = nemo_runspec.plan(recipe.path, config=config, profile="my-cluster")
    made = [artifact for artifact in plan.consumes if artifact.recipe]
    assert made
    for artifact in made:
        advice = str(not_made(plan, artifact, 3, "job").remedy).partition("then: ")[2]
        assert meant(advice).path == artifact.recipe
        with pytest.raises(UserError) as missing:
            require_inputs(replace(plan, consumes=(replace(artifact, ready=False, required=True),)))
        advice = str(missing.value.remedy).partition("make it: ")[2].partition("; or name")[0]
        assert meant(advice).path == artifact.recipe


@pytest.mark.parametrize("recipe", all_steps(), ids=step_id)
def test_the_examples_of_a_step(project, recipe):
    shown = examples(recipe)
    assert shown.lines
    assert {meant(line).path for line in shown.lines} == {recipe.path}
    for config in shown.missing:
        assert meant(shown.writer.replace("|".join(shown.missing), config)).path == "steps/env/env_toml"


@pytest.mark.slow
def test_the_commands_of_every_way_from_type_to_type(nemotron):
    graph, _ = load_graph()
    lines = set[str]()
    for have, want in product(sorted(graph.types.names()), repeat=2):
        told = nemotron("steps", "plan", "--from", have, "--to", want)
        lines |= set(re.findall(r"nemotron (?:steps|pipe) [^\n]*", told.out + told.err))
    assert len(lines) > 50
    for line in lines:
        assert parsed(line).command.name in ("run", "pipe", "plan", "graph"), line
        if line.startswith("nemotron steps run "):
            assert meant(line).is_step


@pytest.mark.parametrize("readme", READMES, ids=lambda file: str(file.parent.relative_to(builtin_root())))
def test_the_commands_of_a_readme(project, nemotron, readme):
    """Those of a step are planned too: their keys are the configuration's."""
    text = readme.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.partition(" #")[0] for line in re.findall(r"^(?: {4}|\$ )(nemotron .*)", text, re.MULTILINE)]
    for line in lines:
        parsed(line)
    if readme.parent.joinpath("step.py").is_file():
        own = [line for line in lines if " run " in line and meant(line).folder == readme.parent]
        assert own, "no line runs the step"
        for line in own:
            _, *words = shlex.split(re.sub(r" -[br] \S+", " -r my-cluster", line))
            nemotron(*words, "--dry-run").succeeds()
