"""A recipe of `kind = "pipe"`: a command of its own whose configs are pipelines of any recipes."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from support import Outcome, Project, process
from toy_steps import COUNT, FETCH, TYPES, write_steps

from nemo_runspec.errors import UserError
from nemo_runspec.pipelines.file import WrittenPipeline, WrittenStage
from nemo_runspec.pipelines.wiring import make_pipeline, until
from nemotron.cli import pipeline_report

PIPE = (
    '# /// script\n# [tool.runspec]\n# schema = "1"\n# description = "All of the family."\n# kind = "pipe"\n'
    '# [tool.runspec.config]\n# dir = "./config"\n# default = "small"\n# ///\n'
)
SMALL = """\
# The whole chain.
name: family-small
steps:
  - {step: family/dig, id: dig}
  - {step: steps/toy/clean, id: clean, overrides: {keep: 4}}
  - {step: family/tell, id: tell, inputs: {data: clean}}
"""
TELLS = (
    '(out / "report.txt").write_text(f"stage  rows\\nclean  {found}\\n")\n'
    '(out / "b.png").touch(); (out / "a.svg").touch(); (out / "data.bin").touch()\n'
)


@pytest.fixture
def family(project: Project) -> Project:
    """A family with two recipes and a pipe, and a step between them."""
    write_steps(project)
    project.write("recipes/steps/types.toml", TYPES)
    head = "output_dir: ${run.output_dir}\ncode: 0\n"
    project.write("recipes/family/dig/dig.py", FETCH)
    project.write("recipes/family/dig/config/default.yaml", f"run: {{rows: {{artifact: dug}}}}\n{head}rows: 12\n")
    project.write("recipes/family/tell/tell.py", COUNT + TELLS)
    project.write(
        "recipes/family/tell/config/default.yaml",
        "run: {data: {path: null}, counted: {artifact: told}}\n" + head + "data: ${run.data.path}\n",
    )
    project.write("recipes/family/all/pipe.py", PIPE)
    project.write("recipes/family/all/config/small.yaml", SMALL)
    return project


def run(project: Project, *words: str) -> Outcome:
    return process(project, "family", "all", *words)


def test_its_page_and_its_help_name_the_steps_and_nothing_is_done(family):
    shown = run(family, "--dry-run").succeeds().out
    assert "family-small: 3 steps, 3 to run" in shown
    assert "rows: 12" not in shown and "data: dig.rows" in shown and "data: clean.kept" in shown
    told = run(family, "--help").succeeds().out
    assert "dig → clean → tell" in told and "The whole chain." in told and "--to" in told
    assert "All of the family." in process(family, "family", "--help").succeeds().out
    assert "2 steps, 2 to run" in run(family, "-c", "small", "--to", "clean", "--dry-run").succeeds().out
    found = run(family, "tell:code=4", "--dry-run", "--json").succeeds().json["steps"]
    assert [each["plan"]["config"]["code"] for each in found] == [0, 0, 4]
    assert not (family.state / "jobs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--to", "nowhere"), ("--to nowhere: no step of this pipeline", "dig, clean, tell")),
        (("-c", "smal"), ("no config 'smal'", "small")),
        (("dig",), ("'dig' is neither an option nor an override",)),
        (("dug:rows=1",), ("'dug' is no step of this pipeline", "dig")),
        (("--full",), ("--full shows a dry run",)),
        (("--stage",), ("--stage",)),
    ],
)
def test_mistakes(family, words, said):
    run(family, *words).refuses(*said)
    assert not (family.state / "jobs").exists()


def test_it_is_no_job_and_no_step_of_another(family):
    process(family, "pipe", "family/all", "family/tell").refuses("family/all is a pipe itself")
    broken = SMALL.replace("steps:", "stepps:")
    family.write("recipes/family/all/config/small.yaml", broken)
    run(family).refuses("needs a list 'steps'", "small.yaml")
    assert "cannot be read: a pipeline needs" in " ".join(run(family, "--help").succeeds().out.split())


@pytest.mark.slow
def test_it_runs_goes_on_where_it_stopped_and_ends_with_what_its_last_step_tells(family):
    first = run(family, "--to", "clean").succeeds()
    assert "dig: runs" in first.err and "tell" not in first.err
    failed = run(family, "tell:code=7")
    assert failed.code == 7 and "go on from there: nemotron family all tell:code=7" in failed.out
    done = run(family).succeeds()
    assert "dig: not run again" in done.err and "clean: not run again" in done.err
    assert "stage  rows\nclean  3\n" in done.out
    named = re.findall(r"^  \(.+/(.+)\)$", done.out, re.MULTILINE)
    assert named == ["report.txt", "a.svg", "b.png"], "and where its figures are"
    again = run(family, "--from", "clean").succeeds()
    assert "dig: not run again" in again.err and "clean: runs (--from)" in again.err


def test_a_stage_that_nothing_reads_any_more_stays_in_a_shorter_pipe(family, monkeypatch):
    monkeypatch.chdir(family.folder)
    steps = tuple(WrittenStage(name, id=name[-1]) for name in ("steps/toy/fetch", "steps/toy/clean", "steps/toy/count"))
    whole = make_pipeline(WrittenPipeline("x", steps))
    assert until(whole, None) is whole
    short = until(whole, "h")
    assert [stage.id for stage in short.stages] == ["h"] and short.handovers == ((),)
    with pytest.raises(UserError, match="--to q: no step"):
        until(whole, "q")


BOTH = COUNT.replace(
    "# ///\nimport", '# [[tool.runspec.consumes]]\n# name = "other"\n# type = "toy_any"\n# ///\nimport', 1
)
SAYS = (
    'other = len(pathlib.Path(config["other"], "rows").read_text().split())\n'
    '(out / "report.txt").write_text(f"first {found}, second {other}\\n")\n'
)


def test_steps_that_make_versions_of_one_artifact_are_each_read_by_name(family):
    """What is read is the version of the step that is named, and not the newest one of that artifact."""
    family.write("recipes/family/both/both.py", BOTH + SAYS)
    family.write(
        "recipes/family/both/config/default.yaml",
        "run: {data: {path: null}, other: {path: null}, counted: {artifact: both}}\n"
        "output_dir: ${run.output_dir}\ncode: 0\ndata: ${run.data.path}\nother: ${run.other.path}\n",
    )
    family.write(
        "recipes/family/all/config/small.yaml",
        "name: family-small\nsteps:\n"
        "  - {step: family/dig, id: one}\n  - {step: family/dig, id: two, overrides: {rows: 3}}\n"
        "  - {step: family/both, id: both, inputs: {data: one, other: two}}\n",
    )
    assert "first 12, second 3\n" in run(family).succeeds().out


def test_a_report_that_cannot_be_shown_is_left_out(family):
    """What a job leaves behind may be anything."""
    huge = '(out / "report.txt").open("wb").truncate(1 << 32)\n'
    family.write("recipes/family/tell/tell.py", COUNT + huge)
    done = run(family).succeeds()
    assert "succeeded" in done.out and "report.txt" not in done.out


def test_outputs_that_cannot_be_seen_from_here_are_said_to_be_so(tmp_path):
    """Those of a job elsewhere, whose disks this machine has not."""
    record = SimpleNamespace(outputs={"report": str(tmp_path / "elsewhere")})
    member = SimpleNamespace(step="tell", state="succeeded", record=record)
    told = pipeline_report._report(SimpleNamespace(members=[member]))  # type: ignore[arg-type]
    assert told == ["", f"  the outputs of tell cannot be seen from this machine: {tmp_path / 'elsewhere'}"]
    (tmp_path / "elsewhere").mkdir()
    assert pipeline_report._report(SimpleNamespace(members=[member])) == []  # type: ignore[arg-type]
