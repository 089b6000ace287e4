"""A job looks at its inputs before the command, and at its outputs before they are registered."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from job_scripts import plan_for, run_script
from support import Project, make_project, process

from nemo_runspec.plans.model import Artifact

HEAD = """\
# /// script
# [tool.runspec]
# [tool.runspec.run]
# launch = "direct"
# [[tool.runspec.consumes]]
# name = "data"
# type = "{0}"
# required = false
# [[tool.runspec.produces]]
# name = "rows"
# type = "{1}"
# ///
"""
BODY = """\
import pathlib, sys, yaml
config = yaml.safe_load(open(sys.argv[2]))
print("the command runs", flush=True)
if config["line"]:
    folder = pathlib.Path(config["output_dir"])
    folder.mkdir(parents=True)
    (folder / "x.jsonl").write_text(config["line"] + chr(10))
"""
CONFIG = 'run: {data: {path: %s}, rows: {artifact: rows}}\noutput_dir: ${run.output_dir}\nline: \'{"text": "a"}\'\n'
GOOD, BAD = '{"text": "a"}\n', '{"text": "a"}\n{"text": 1}\n'


@pytest.fixture
def project(tmp_path) -> Project:
    made = make_project(tmp_path, f'[artifacts]\nroot = "{tmp_path}/store"\n')
    made.write("recipes/mine/clean/clean.py", HEAD.format("raw_jsonl", "filtered_jsonl") + BODY)
    made.write("recipes/mine/clean/config/default.yaml", CONFIG % (tmp_path / "in.jsonl"))
    (tmp_path / "in.jsonl").write_text(GOOD)
    return made


def record(project: Project) -> dict:
    (file,) = (project.state / "jobs").glob("*/record.json")
    return json.loads(file.read_text())


def log(project: Project) -> str:
    (file,) = (project.state / "jobs").glob("*/logs/job.log")
    return file.read_text()


def registered(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "store").glob("rows/.versions/v*.json"))


def test_a_chain_that_holds_is_not_in_the_way(project, tmp_path):
    process(project, "mine", "clean").succeeds()
    assert log(project) == "the command runs\n"
    assert registered(tmp_path) == ["v1.json"]


def test_an_input_that_is_wrong_ends_the_job_before_its_command(project, tmp_path):
    (tmp_path / "in.jsonl").write_text(BAD)
    done = process(project, "mine", "clean")
    assert done.code == 65
    what = f"input 'data' (raw_jsonl): {tmp_path}/in.jsonl, line 2: 'text' is a number, not a string"
    assert what in done.err
    assert "the command runs" not in log(project)
    assert what in log(project)
    assert (record(project)["exit_code"], record(project)["states"][-1]["state"]) == (65, "failed")
    name = record(project)["name"]
    assert what in process(project, "jobs", "show", name).out
    told = process(project, "jobs", "diagnose", name).out
    assert what in told and "artifact" in told and "nemotron artifacts check" in told
    assert registered(tmp_path) == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('line="no rows"', "x.jsonl, line 1: is not JSON"),
        ("line=", ": is not there"),
    ],
)
def test_an_output_that_is_wrong_is_not_registered(project, tmp_path, line, what):
    done = process(project, "mine", "clean", line)
    assert done.code == 65
    assert "the command runs" in log(project)
    assert "output 'rows' (filtered_jsonl): " in log(project) and what in log(project)
    assert registered(tmp_path) == []
    assert not (tmp_path / "store" / "rows" / "latest").exists()


def test_it_can_be_turned_off(project, tmp_path):
    (tmp_path / "in.jsonl").write_text(BAD)
    process(project, "mine", "clean", "line=none", "run.artifacts.check=false").succeeds()
    assert registered(tmp_path) == ["v1.json"]
    assert not list((project.state / "jobs").glob("*/checks.py"))


def test_an_optional_input_that_is_not_there_is_not_missed(project, tmp_path):
    process(project, "mine", "clean", "run.data.path=null").succeeds()
    assert registered(tmp_path) == ["v1.json"]


def test_types_that_nobody_declares_are_not_looked_at(project):
    project.write("recipes/mine/clean/clean.py", HEAD.format("anything", "whatever") + BODY)
    process(project, "mine", "clean", "line=none").succeeds()
    assert not list((project.state / "jobs").glob("*/checks.py"))


def test_a_command_that_failed_keeps_its_exit_code(project, tmp_path):
    script = project.folder / "recipes/mine/clean/clean.py"
    script.write_text(script.read_text() + "sys.exit(3)\n")
    assert process(project, "mine", "clean", 'line="no rows"').code == 3
    assert registered(tmp_path) == []


def test_a_file_of_the_job_bundle_is_looked_at(project, tmp_path):
    project.write("recipes/mine/clean/examples/x.jsonl", BAD)
    done = process(project, "mine", "clean", "run.data.path=bundle:examples/x.jsonl")
    assert done.code == 65
    assert "bundle/recipes/mine/clean/examples/x.jsonl, line 2: 'text' is a number" in done.err
    project.write("recipes/mine/clean/examples/x.jsonl", GOOD)
    project.write("recipes/mine/_shared/common/data/y.jsonl", BAD)
    process(project, "mine", "clean", "run.data.path=bundle:examples/x.jsonl").succeeds()
    assert process(project, "mine", "clean", "run.data.path=bundle:data/y.jsonl").code == 65


def test_the_newest_version_is_looked_at_where_it_is_read(project, tmp_path):
    project.write("recipes/mine/clean/clean.py", HEAD.format("training_jsonl", "filtered_jsonl") + BODY)
    process(project, "mine", "clean").succeeds()
    (tmp_path / "store" / "rows" / "latest" / "x.jsonl").write_text(BAD)
    done = process(project, "mine", "clean", "run.data=rows")
    assert done.code == 65
    assert "x.jsonl, line 2: 'text' is a number, not a string" in done.err


def test_where_the_checkers_cannot_run_the_job_goes_on(project, tmp_path):
    """A checker that does not answer is no fault of the data's."""
    (tmp_path / "in.jsonl").write_text(BAD)
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif sys.argv[:1] != ['']: pass\n"
        "if any('checks.py' in word for word in sys.orig_argv): os._exit(9)\n"
    )
    done = process(project, "mine", "clean", PYTHONPATH=str(tmp_path))
    assert done.code == 0, done.err
    assert "input 'data' (raw_jsonl): not looked at: exit code 9 of the checkers" in log(project)


@pytest.mark.parametrize(
    ("path", "code"), [("s3://bucket/rows", 0), ("someone/some-model", 0), ("/gone/rows", 65), ("in.jsonl", 0)]
)
def test_an_address_and_a_name_are_nothing_to_look_at(tmp_path, path, code):
    """Only a whole path says where something lies for the job."""
    plan = plan_for(tmp_path, "print('ran')\n")
    data = Artifact("data", "raw_jsonl", path=path, check="rows")
    ended, said = run_script(dataclasses.replace(plan, consumes=(data,)), tmp_path)
    assert (ended, "ran" in said) == (code, code == 0), said
