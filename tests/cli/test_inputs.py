"""Inputs that are not there: made where the call says, refused where the user named a path."""

from __future__ import annotations

import pytest

HEAD = '# /// script\n# [tool.runspec]\n# description = "{0}"\n# [tool.runspec.run]\n# launch = "direct"\n{1}# ///\n'
MAKER = HEAD.format("Makes data.", '# [[tool.runspec.produces]]\n# name = "data"\n# type = "text"\n') + (
    "import sys, pathlib, yaml\n"
    "folder = pathlib.Path(yaml.safe_load(open(sys.argv[2]))['output_dir'])\n"
    "folder.mkdir(parents=True)\n(folder / 'words').write_text('made')\n"
)
READER = HEAD.format("Reads data.", '# [[tool.runspec.consumes]]\n# name = "data"\n# type = "text"\n') + (
    "import sys, pathlib, yaml\nprint(pathlib.Path(yaml.safe_load(open(sys.argv[2]))['data'], 'words').read_text())\n"
)


@pytest.fixture
def recipes(project):
    project.write("recipes/mine/make/make.py", MAKER)
    project.write(
        "recipes/mine/make/config/default.yaml", "run: {data: {artifact: words}}\noutput_dir: ${run.output_dir}\n"
    )
    project.write("recipes/mine/read/read.py", READER)
    text = "run: {data: {artifact: words, recipe: mine/make, make: if-missing}}\ndata: ${art:data,path}\n"
    project.write("recipes/mine/read/config/default.yaml", text)
    project.write("recipes/mine/read/config/strict.yaml", text.replace(", make: if-missing", ""))
    return project


@pytest.mark.slow
def test_a_missing_input_is_made_once(recipes, nemotron_process):
    first = nemotron_process("mine", "read").succeeds()
    assert "made" in first.out
    assert "running mine/make first" in first.err
    second = nemotron_process("mine", "read").succeeds()
    assert "made" in second.out
    assert "first" not in second.err
    jobs = nemotron_process("jobs", "list").succeeds().out
    assert jobs.count("mine-make-") == 1
    assert jobs.count("mine-read-") == 2


def test_it_is_made_where_the_call_says(recipes, nemotron_process):
    elsewhere = recipes.folder / "my artifacts"
    done = nemotron_process("mine", "read", f'run.artifacts.root="{elsewhere}"').succeeds()
    assert "made" in done.out
    assert (elsewhere / "words" / "latest" / "words").read_text() == "made"


def test_a_path_that_was_named_is_never_made(recipes, nemotron_process):
    nemotron_process("mine", "read", "run.data.path=/not/there").refuses("is missing: /not/there")
    assert "No jobs yet" in nemotron_process("jobs", "list").succeeds().out


def test_other_configs_name_the_command(recipes, nemotron_process):
    nemotron_process("mine", "read", "-c", "strict").refuses("nemotron mine make")
    assert "No jobs yet" in nemotron_process("jobs", "list").succeeds().out


def test_a_header_without_configs_runs(recipes, nemotron_process):
    recipes.write("recipes/mine/plain/plain.py", HEAD.format("Says it.", "") + "print('plain')\n")
    assert "plain" in nemotron_process("mine", "plain").succeeds().out


def test_a_maker_that_fails_gives_its_own_exit_code(recipes, nemotron_process):
    recipes.write("recipes/mine/make/make.py", MAKER + "raise SystemExit(5)\n")
    done = nemotron_process("mine", "read")
    assert done.code == 5
    assert "making 'words' has ended with exit code 5; mine/read was not started" in done.err


def test_an_input_that_is_not_named(recipes, nemotron_process):
    recipes.write("recipes/mine/read/config/bare.yaml", "data: 1\n")
    nemotron_process("mine", "read", "-c", "bare").refuses("needs an input 'data' (text), and none is named")
