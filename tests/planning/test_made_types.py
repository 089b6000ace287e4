"""An input of a type that it does not take is refused when it is planned, though nothing has been made yet."""

from __future__ import annotations

import pytest
from input_recipes import READER, write_recipes
from support import Project, make_project, process


@pytest.fixture
def project(tmp_path) -> Project:
    made = make_project(tmp_path, f'[artifacts]\nroot = "{tmp_path}/store"\n[elsewhere]\nexecutor = "slurm"\n')
    write_recipes(made)
    made.write("recipes/mine/read/read.py", READER.replace('type = "text"', 'type = "model"'))
    made.write(
        "recipes/steps/types.toml",
        '[model]\ndescription = "Weights."\nlayout = "a folder"\n[text]\ndescription = "Words."\nlayout = "a file"\n',
    )
    return made


@pytest.mark.parametrize("where", [(), ("--run", "elsewhere")])
@pytest.mark.parametrize("config", ["default", "strict"])
def test_what_the_named_recipe_makes_is_of_another_type(project, where, config):
    done = process(project, "mine", "read", "-c", config, *where, "--dry-run")
    done.refuses("input 'data' takes model, and 'words' of mine/make is text", f"config/{config}.yaml:1")


def test_a_type_that_is_the_wanted_one_too_is_taken(project):
    types = project.folder / "recipes/steps/types.toml"
    types.write_text(types.read_text().replace("[text]", '[text]\nis_a = "model"'))
    process(project, "mine", "read", "--dry-run").succeeds()


def test_an_artifact_that_the_recipe_does_not_make_is_nothing_of_its_type(project):
    process(project, "mine", "read", "run.data.artifact=other", "--dry-run").succeeds()
