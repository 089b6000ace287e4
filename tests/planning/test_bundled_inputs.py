"""Inputs that travel with the job (`bundle:REL`): taken as ready on every backend, never made into a path."""

from __future__ import annotations

import pytest
from support import PROFILES, Project, enter, make_project, process

HEADER = """\
# /// script
# [tool.runspec]
# description = "Reads what travels with it."
# [tool.runspec.run]
# launch = "direct"
# [[tool.runspec.consumes]]
# name = "data"
# type = "text"
# [[tool.runspec.produces]]
# name = "model"
# type = "text"
# ///
"""
BODY = """\
import os, pathlib, sys, yaml
path = yaml.safe_load(open(sys.argv[2]))["path"]
print("named:", path)
print("read:", (pathlib.Path(__file__).parent / path.partition(":")[2]).read_text())
"""
YAML = "run:\n  data:\n    path: {0}\npath: ${{art:data,path}}\n"
TINY = "bundle:examples/words.txt"


@pytest.fixture
def project(tmp_path) -> Project:
    made = make_project(tmp_path)
    configs = {"default": YAML.format("???"), "tiny": YAML.format(TINY), "shared": YAML.format("bundle:data/more.txt")}
    configs |= {"wrong": YAML.format("bundle:examples/wrds.txt")}
    made.recipe("mine/reads", header=HEADER, body=BODY, **configs)
    made.write("recipes/mine/reads/examples/words.txt", "hello")
    made.write("recipes/mine/_shared/tools/data/more.txt", "more")
    return made


@pytest.mark.parametrize("profile", [None, *PROFILES])
@pytest.mark.parametrize(("config", "path"), [("tiny", TINY), ("shared", "bundle:data/more.txt")])
def test_every_backend_leaves_it_as_it_is_written(project, monkeypatch, profile, config, path):
    from nemo_runspec import plan

    enter(project, monkeypatch)
    made = plan("mine/reads", config=config, profile=profile)
    (data,) = made.consumes
    assert (data.path, data.ready, data.artifact, data.is_bundled) == (path, True, None, True)
    assert made.config["path"] == made.run["data"]["path"] == path
    assert not [line for line in made.warnings if "bundle:" in line]


def test_a_job_reads_what_travelled_with_it(project):
    done = process(project, "mine", "reads", "-c", "tiny").succeeds()
    assert f"named: {TINY}" in done.out and "read: hello" in done.out


def test_a_folder_of_the_bundle_and_a_value_on_the_command_line(project, monkeypatch):
    from nemo_runspec import plan

    enter(project, monkeypatch)
    given = plan("mine/reads", overrides=["run.data=bundle:examples"])
    assert given.config["path"] == "bundle:examples"
    assert plan("mine/reads", overrides=["run.data.path=bundle:examples"]).config == given.config


def test_what_the_bundle_does_not_have_is_a_mistake_with_its_place(project):
    done = process(project, "mine", "reads", "-c", "wrong", "--dry-run")
    done.refuses("bundle:examples/wrds.txt", "wrong.yaml:3", "did you mean", "examples/words.txt")
    process(project, "mine", "reads", "run.data=bundle:../secret", "--dry-run").refuses(
        "no such file in the job bundle"
    )


def test_an_output_is_never_in_the_bundle(project):
    done = process(project, "mine", "reads", "-c", "tiny", "run.model=bundle:model", "--dry-run")
    done.refuses("output 'model' is bundle:model", "command line")


@pytest.mark.parametrize("words", [(), ("--run", "my-cluster")])
def test_a_required_input_that_nobody_names_is_said_with_its_place(project, words):
    process(project, "mine", "reads", *words).refuses("run.data.path has no value", "default.yaml:3", "run.data.path=")
