"""`nemotron pipe` on this machine, from outside: what each step reads, what runs again, what stops."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from textwrap import indent

import pytest
from support import Outcome, Project, finish, process, start
from toy_steps import write_steps
from waiting import open_gate, until

STEPS = ("toy/fetch", "toy/clean", "toy/count")
FETCH_CONFIG = "run: {rows: {artifact: toy-rows}}\noutput_dir: ${run.output_dir}\ncode: 0\nrows: 12\nheld: false\n"


@pytest.fixture
def steps(project: Project) -> Project:
    write_steps(project)
    return project


def pipe(project: Project, *words: str) -> Outcome:
    return process(project, "pipe", *(words or STEPS))


def shown(project: Project, group: str) -> dict:
    return process(project, "jobs", "show", group, "-o", "json").succeeds().json


def group_of(project: Project) -> str:
    """The newest run."""
    found = sorted((project.state / "sweeps").iterdir(), key=lambda path: path.stat().st_mtime)
    return found[-1].name


def states(project: Project) -> dict[str, str]:
    found = shown(project, group_of(project))
    return {each["step"]: "reused" if each["reused"] else each["state"] for each in found["steps"]}


def counted(project: Project) -> str:
    last = shown(project, group_of(project))["steps"][-1]
    return (Path(last["outputs"]["counted"]) / "count").read_text()


@pytest.mark.slow
def test_each_step_reads_what_the_one_before_has_made(steps):
    pipe(steps).succeeds()
    assert states(steps) == dict.fromkeys(STEPS, "succeeded")
    assert counted(steps) == "4"
    found = shown(steps, group_of(steps))
    assert (found["kind"], found["state"], found["exit_code"]) == ("pipeline", "succeeded", 0)
    text = process(steps, "jobs", "show", group_of(steps)).succeeds().out
    assert all(step in text for step in STEPS)


@pytest.mark.slow
def test_only_what_changed_runs_again(steps):
    pipe(steps).succeeds()
    groups = len(list((steps.state / "sweeps").iterdir()))
    again = pipe(steps).succeeds()
    assert "nothing to be done" in again.err
    assert len(list((steps.state / "sweeps").iterdir())) == groups
    # A value of the second step: the first is not run again, the third is.
    changed = pipe(steps, *STEPS, "clean:keep=2").succeeds()
    assert "toy/clean: runs (changed: config)" in changed.err
    assert "toy/count: runs (what it reads is made again)" in changed.err
    assert states(steps) == {STEPS[0]: "reused", STEPS[1]: "succeeded", STEPS[2]: "succeeded"}
    assert counted(steps) == "6"
    # Code of the last one.
    step = steps.folder / "recipes/steps/toy/count/step.py"
    step.write_text(step.read_text() + "# changed\n")
    assert "toy/count: runs (changed: code)" in pipe(steps, *STEPS, "clean:keep=2").succeeds().err
    assert states(steps) == {STEPS[0]: "reused", STEPS[1]: "reused", STEPS[2]: "succeeded"}
    # What was made before is used again although something else ran since.
    assert "toy/clean: not run again" in pipe(steps).succeeds().err
    assert "toy/fetch: runs (--from)" in pipe(steps, *STEPS, "--from", "fetch").succeeds().err


@pytest.mark.slow
def test_a_failed_step_stops_what_depends_on_it_and_a_rerun_goes_on_there(steps):
    failed = pipe(steps, *STEPS, "clean:code=7")
    assert failed.code == 7
    assert states(steps) == {STEPS[0]: "succeeded", STEPS[1]: "failed", STEPS[2]: "not run"}
    assert "go on from there: nemotron pipe toy/fetch toy/clean toy/count clean:code=7" in failed.out
    pipe(steps).succeeds()
    assert states(steps) == {STEPS[0]: "reused", STEPS[1]: "succeeded", STEPS[2]: "succeeded"}


@pytest.mark.slow
def test_what_was_made_and_is_gone_is_made_again(steps):
    pipe(steps).succeeds()
    made = shown(steps, group_of(steps))["steps"][0]["outputs"]["rows"]
    Path(made, "rows").unlink()
    Path(made).rmdir()
    again = pipe(steps).succeeds()
    assert "toy/fetch: runs (what" in again.err and "is gone" in again.err
    assert states(steps) == dict.fromkeys(STEPS, "succeeded")


@pytest.mark.slow
def test_a_file_says_steps_inputs_and_values(steps):
    steps.write(
        "chain.yaml",
        "name: counting\nsteps:\n  - toy/fetch\n  - step: toy/clean\n    overrides: {keep: 5}\n"
        "  - step: toy/count\n    id: all\n    inputs: {data: toy/fetch}\n  - step: toy/count\n    id: kept\n"
        "    inputs: {data: toy/clean.kept}\n",
    )
    pipe(steps, "chain.yaml").succeeds()
    found = {each["step"]: each for each in shown(steps, group_of(steps))["steps"]}
    counts = {name: (Path(found[name]["outputs"]["counted"]) / "count").read_text() for name in ("all", "kept")}
    assert counts == {"all": "12", "kept": "3"}
    # Branches are apart: where one fails, what does not read of it is still run.
    failed = pipe(steps, "chain.yaml", "toy/clean:code=3")
    assert failed.code == 3
    assert states(steps) == {"toy/fetch": "reused", "toy/clean": "failed", "all": "reused", "kept": "not run"}


@pytest.mark.slow
def test_detached_it_goes_on_by_itself_and_jobs_shows_it_as_one(steps):
    write_steps(steps, held="true")
    done = pipe(steps, *STEPS, "--batch", "laptop", "--tag", "mine").succeeds()
    group = done.out.strip()
    assert group.startswith("pipe-toy-fetch")
    held = shown(steps, group)["steps"][0]["job"]
    # The same is not made twice meanwhile.
    pipe(steps, *STEPS, "--batch", "laptop").refuses("toy/fetch:", "makes the same now", group)
    listed = process(steps, "jobs", "list", "--tag", "mine").succeeds().out
    assert group in listed
    open_gate(steps.state / "jobs" / held)
    assert process(steps, "jobs", "wait", group).code == 0
    assert shown(steps, group)["state"] == "succeeded"


@pytest.mark.slow
def test_cancelled_no_further_step_is_started(steps):
    write_steps(steps, held="true")
    group = pipe(steps, *STEPS, "--batch", "laptop").succeeds().out.strip()
    process(steps, "jobs", "cancel", group, "--grace", "1").succeeds()
    found = shown(steps, group)
    assert found["state"] == "cancelled" and found["exit_code"] != 0
    assert [each["state"] for each in found["steps"]] == ["cancelled", "not run", "not run"]


def test_a_dry_run_shows_all_of_it_and_does_nothing(steps):
    done = pipe(steps, *STEPS, "--run", "laptop", "--dry-run").succeeds()
    assert "3 steps, 3 to run" in done.out
    assert "data: toy/fetch.rows" in done.out and "data: toy/clean.kept" in done.out
    assert "this machine" not in done.out.split("one after another")[0]
    assert not (steps.state / "sweeps").exists() and not (steps.state / "jobs").exists()
    found = json.loads(pipe(steps, *STEPS, "--dry-run", "--json").succeeds().out)
    first, second = found["steps"][0]["plan"], found["steps"][1]["plan"]
    made = {each["name"]: each["path"] for each in first["produces"]}
    assert second["consumes"][0]["path"] == made["rows"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), ("which steps?",)),
        (("toy/fetsh",), ("toy/fetsh", "toy/fetch")),
        (("/", "toy/clean"), ("names no step",)),
        (("/bin",), ("no step",)),
        (("..",), ("no ",)),
        (("@tiny",), ("which step",)),
        (
            ("toy/count", "toy/clean"),
            ("takes nothing that a step before", "no step leads from one to"),
        ),
        (("curate/nemo_curator", "pretrain/automodel"), ("steps plan --from filtered_jsonl --to binidx",)),
        ((*STEPS, "cleen:keep=1"), ("'cleen' is no step of this pipeline",)),
        ((*STEPS, "--from", "nowhere"), ("--from nowhere",)),
        ((*STEPS, "--run", "laptop", "--batch", "laptop"), ("exclude each other",)),
        ((*STEPS, "--full"), ("--full shows a dry run",)),
        ((*STEPS, "clean:kepp=1"), ("toy/clean", "kepp")),
        (("toy/count",), ("toy/count", "needs an input 'data'")),
        (("missing.yaml",), ("missing.yaml", "No such file")),
        ((*STEPS, "--run", "gone"), ("gone",)),
    ],
)
def test_mistakes(steps, words, said):
    process(steps, "pipe", *words).refuses(*said)
    assert not (steps.state / "jobs").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps: [toy/fetch]\nstepps: 1\n", ("bad.yaml:2", "stepps")),
        ("steps:\n  - step: toy/fetch\n    confg: x\n", ("bad.yaml:3", "confg", "config")),
        ("steps: []\n", ("needs a list 'steps'",)),
        ("steps:\n  - toy/fetch\n  - 3\n", ("bad.yaml:3",)),
        ("steps: [toy/fetch\n", ("bad.yaml", "YAML")),
        ("steps:\n  - toy/fetch\n  - {step: toy/clean, inputs: {dta: toy/fetch}}\n", ("no input 'dta'", "data")),
        ("steps:\n  - toy/fetch\n  - {step: toy/clean, inputs: {data: toy/fetsh}}\n", ("toy/fetsh", "toy/fetch")),
        ("steps:\n  - toy/fetch\n  - {step: toy/clean, inputs: {data: toy/fetch.row}}\n", ("makes no 'row'", "rows")),
        ("steps:\n  - toy/fetch\n  - {step: toy/count, id: toy/fetch}\n", ("two steps are called",)),
        ("steps:\n  - step: toy/fetch\n    overrides: ['kepp=1']\n", ("bad.yaml:3", "kepp")),
        ("overrides: ['kepp=[']\nsteps:\n  - toy/fetch\n", ("bad.yaml:1", "kepp=[")),
        ("steps:\n  - step: toy/clean\n    overrides: ['keep=many']\n", ("bad.yaml:3", "keep is a number")),
        ("steps:\n  - {step: toy/fetch, overrides: {note: !!binary aGVs}}\n", ("bad.yaml:2", "!!binary")),
        ("steps:\n  - {step: toy/fetch, overrides: {note: {é: 1}}}\n", ("bad.yaml:2", "é")),
        ("- toy/fetch\n", ("bad.yaml", "needs a list 'steps'")),
        ("toy/fetch\n", ("bad.yaml", "needs a list 'steps'")),
        ("steps: {a: toy/fetch}\n", ("bad.yaml:1", "needs a list 'steps'")),
        ("steps: !!set {toy/fetch}\n", ("bad.yaml:1", "!!set")),
        ("steps: [!!python/object/apply:os.system ['true']]\n", ("bad.yaml:1", "python/object")),
        ("steps: [toy/fetch]\nsteps: [toy/clean]\n", ("bad.yaml:2", "'steps' stands there twice")),
        ("steps:\n  - step: toy/fetch\n    step: toy/count\n", ("bad.yaml:3", "'step' stands there twice")),
        ("steps: ['']\n", ("bad.yaml:1", "'' names no step")),
        (f"steps: [{'a' * 5000}]\n", ("bad.yaml:1", "no step 'aaa")),
        ('name: "a\\nb"\nsteps: [toy/fetch]\n', ("bad.yaml:1", "'name' is one line")),
        ('steps: [{step: toy/fetch, id: "a:b=c"}]\n', ("bad.yaml:1", "'id' is one line")),
        ("steps:\n  - step: toy/fetch\n    overrides: {rows: !!binary aGk=}\n", ("bad.yaml:3", "!!binary")),
        ("steps:\n  - step: toy/fetch\n    overrides: {'': 3}\n", ("bad.yaml:3", "an override has a key")),
        ("steps:\n  - step: toy/fetch\n    overrides: 0\n", ("bad.yaml:3", "'overrides' is a list")),
        ("steps:\n  - step: toy/fetch\n    overrides:\n      rowz: 3\n", ("bad.yaml:4", "no key 'rowz'", "rows")),
        ("steps:\n  - step: toy/fetch\n    overrides: [held=1, rows=x]\n", ("bad.yaml:3", "rows is a number")),
        ("steps: [toy/fetch, {step: toy/clean, inputs: false}]\n", ("bad.yaml:1", "'inputs' is a table")),
        ("steps: [toy/fetch, {step: toy/clean, inputs: {data: ''}}]\n", ("bad.yaml:1", "'inputs' is a table")),
        (
            "steps: [toy/fetch, {step: toy/clean, inputs: {data: toy/fetch}, overrides: [run.data.path=/x]}]\n",
            ("bad.yaml:1", "'data' from 'toy/fetch'", "run.data.path=/x"),
        ),
        (
            "steps: [toy/fetch, {step: toy/clean, overrides: [run.data.path=/x]}]\n",
            ("bad.yaml:1", "run.data.path=/x says where its input is"),
        ),
        (f"steps: {'[' * 200_000}*a{']' * 200_000}\n", ("bad.yaml", "nested too deeply")),
    ],
)
def test_mistakes_in_a_file(steps, text, said):
    steps.write("bad.yaml", text)
    process(steps, "pipe", "bad.yaml", "--dry-run").refuses(*said)


def test_a_file_that_is_no_text(steps):
    (steps.folder / "bad.yaml").write_bytes("name: café\n".encode("latin-1"))
    process(steps, "pipe", "bad.yaml").refuses("cannot read the pipeline: it is not UTF-8", "bad.yaml")
    process(steps, "pipe", "recipes.yaml").refuses("cannot read the pipeline: No such file")


def values(steps: Project, *words: str) -> dict:
    return process(steps, "pipe", *words, "--dry-run", "--json").succeeds().json["steps"][0]["plan"]


def test_values_of_a_file_are_what_a_config_would_make_of_them(steps):
    written = "a: 1e-4\nb: 10:00:00\nc: 2020-01-01\nd: [1, it's, {e: 'f \"g\"'}]\nh: {i: {j: true}}\nk: null\nl: {}\n"
    steps.write("recipes/steps/toy/fetch/config/asked.yaml", f"{FETCH_CONFIG}x:\n{indent(written, '  ')}")
    wanted = values(steps, "toy/fetch@asked")["config"]["x"]
    table = indent(written, "        ")
    steps.write("chain.yaml", f"steps:\n  - step: toy/fetch\n    overrides:\n      +x:\n{table}")
    plan = values(steps, "chain.yaml")
    assert plan["config"]["x"] == wanted == {
        "a": 1e-4, "b": "10:00:00", "c": "2020-01-01", "d": [1, "it's", {"e": 'f "g"'}], "h": {"i": {"j": True}},
        "k": None, "l": {},
    }  # fmt: skip
    assert (plan["sources"]["x.a"]["file"], plan["sources"]["x.a"]["line"]) == ("chain.yaml", 4)


def test_the_command_line_is_stronger_than_a_file(steps):
    steps.write("chain.yaml", "overrides: {rows: 3}\nsteps:\n  - {step: fetch, overrides: {rows: 4}}\n")
    assert values(steps, "chain.yaml")["config"]["rows"] == 4
    assert values(steps, "chain.yaml", "toy/fetch:rows=6")["config"]["rows"] == 6
    assert values(steps, "chain.yaml", "fetch:rows=6")["config"]["rows"] == 6
    steps.write("chain.yaml", "steps:\n  - {step: toy/fetch, overrides: {rows: 4}}\n")
    assert values(steps, "chain.yaml", "rows=5")["config"]["rows"] == 5


def test_a_step_that_is_there_twice_is_named_by_its_number(steps):
    words = ("toy/fetch", "toy/clean", "toy/clean", "toy/clean-2:keep=4")
    found = process(steps, "pipe", *words, "--dry-run", "--json").succeeds().json["steps"]
    assert [step["plan"]["config"].get("keep") for step in found] == [None, 3, 4]
    process(steps, "pipe", *words[:3], "gone:keep=4").refuses("'gone' is no step of this pipeline")


def test_a_chain_may_begin_in_several_places(steps):
    text = (
        "steps:\n  - {step: toy/fetch, id: one}\n  - toy/clean\n  - {step: toy/fetch, id: two}\n  - {step: toy/count}\n"
    )
    steps.write("chain.yaml", text)
    found = process(steps, "pipe", "chain.yaml", "--dry-run", "--json").succeeds().json["steps"]
    assert [step["inputs"] for step in found] == [{}, {"data": "one.rows"}, {}, {"data": "two.rows"}]
    steps.write("chain.yaml", text.rpartition("  - ")[0])
    process(steps, "pipe", "chain.yaml").refuses("two takes nothing that a step before it makes")


def test_places_that_do_not_see_each_other(steps):
    text = "steps:\n  - {step: toy/fetch, profile: my-cluster}\n  - toy/clean\n"
    steps.write("apart.yaml", text)
    process(steps, "pipe", "apart.yaml", "--dry-run").refuses("looks for artifacts in", "run.artifacts.root")


@pytest.mark.slow
def test_a_retry_names_the_command_that_goes_on(steps):
    assert pipe(steps, *STEPS, "clean:code=7").code == 7
    group = group_of(steps)
    process(steps, "jobs", "retry", group).refuses("is a pipeline", "nemotron pipe toy/fetch toy/clean toy/count")


@pytest.mark.slow
def test_an_input_from_outside_that_changed_is_read_again(steps):
    rows = steps.folder / "mine" / "rows"
    rows.parent.mkdir()
    rows.write_text("3 6 7")
    words = ("toy/clean", "toy/count", f"clean:run.data.path={rows.parent}")
    pipe(steps, *words).succeeds()
    assert counted(steps) == "2"
    assert "nothing to be done" in pipe(steps, *words).succeeds().err
    rows.write_text("3 6 9 12")
    assert "toy/clean: runs (changed: inputs)" in pipe(steps, *words).succeeds().err
    assert counted(steps) == "4"


@pytest.mark.slow
def test_what_lies_in_another_store_is_made_again(steps):
    pipe(steps).succeeds()
    elsewhere = f"run.artifacts.root={steps.home}/other"
    again = pipe(steps, *STEPS, elsewhere).succeeds()
    assert "toy/fetch: runs (changed: place)" in again.err
    assert states(steps) == dict.fromkeys(STEPS, "succeeded")
    assert "nothing to be done" in pipe(steps, *STEPS, elsewhere).succeeds().err
    assert "nothing to be done" in pipe(steps).succeeds().err


@pytest.mark.slow
def test_two_at_once_make_it_once(steps):
    started = [start(steps, "pipe", *STEPS) for _ in range(3)]
    codes = [finish(each).code for each in started]
    assert 0 in codes and set(codes) <= {0, 2}
    jobs = [path for path in (steps.state / "jobs").iterdir() if path.is_dir()]
    assert len(jobs) == len(STEPS)


@pytest.mark.slow
def test_what_jobs_say_of_a_pipeline(steps):
    assert pipe(steps, *STEPS, "clean:code=7").code == 7
    group = group_of(steps)

    def jobs(*words: str) -> Outcome:
        return process(steps, "jobs", *words)

    assert "3 steps" in jobs("list").succeeds().out and "run" not in jobs("list").out.replace("not run", "")
    jobs("logs", group).refuses(f"'{group}' is a pipeline of 2 jobs, and one is needed")
    jobs("show", group, "--script").refuses("is a pipeline")
    jobs("show", group, "--sort", "time").refuses("--sort belongs to a sweep")
    job = shown(steps, group)["steps"][0]["job"]
    assert ["pipeline", group] in [line.split() for line in jobs("show", job).succeeds().out.splitlines()]
    jobs("diagnose", group).refuses("is a pipeline of 2 jobs")
    assert jobs("rm", group).succeeds().out.endswith("2 jobs and 1 pipeline removed\n")


@pytest.mark.slow
def test_what_reads_of_a_step_whose_output_is_not_registered_waits_until_it_is(steps):
    pipe(steps).succeeds()
    store = steps.state / "run" / "artifacts" / "toy-rows"
    (store / ".versions").rename(store / "aside")
    (store / ".versions").write_text("in the way")
    assert pipe(steps, *STEPS, "fetch:rows=3").code == 74
    assert [states(steps)[step] for step in STEPS[:2]] == ["failed", "not run"]
    (store / ".versions").unlink()
    (store / "aside").rename(store / ".versions")
    process(steps, "artifacts", "register").succeeds()
    assert "toy/fetch: not run again" in pipe(steps, *STEPS, "fetch:rows=3").succeeds().err
    assert counted(steps) == "1"


@pytest.mark.slow
def test_what_is_shown_is_what_is_run(steps):
    def plain(plan: dict) -> str:
        return re.sub(r"-\d{4}-[0-9a-z]{8}", "-ID", json.dumps(plan, sort_keys=True))

    preview = pipe(steps, *STEPS, "--dry-run", "--json").succeeds().json["steps"]
    pipe(steps).succeeds()
    jobs = [each["job"] for each in shown(steps, group_of(steps))["steps"]]
    run = [json.loads((steps.state / "jobs" / job / "plan.json").read_text()) for job in jobs]
    assert [plain(each["plan"]) for each in preview] == [plain(plan) for plan in run]


def test_a_preview_names_what_a_platform_waits_for(steps):
    shown_whole = pipe(steps, *STEPS, "--run", "my-cluster", "--dry-run", "--full").succeeds().out
    assert "afterok:<toy/fetch>" in shown_whole and "afterok:<toy/clean>" in shown_whole


@pytest.mark.slow
def test_a_step_that_made_nothing_is_not_taken_for_made(steps):
    step = steps.folder / "recipes/steps/toy/fetch/step.py"
    step.write_text(step.read_text().replace("out.mkdir(parents=True, exist_ok=True)", "sys.exit(0)"))
    assert pipe(steps).code != 0
    again = pipe(steps)
    assert "toy/fetch: runs (" in again.err and "ended well and made no 'rows'" in again.err


@pytest.mark.slow
def test_its_process_ends_when_what_is_kept_of_it_is_gone(steps):
    write_steps(steps, held="true")
    group = pipe(steps, *STEPS, "--batch", "laptop").succeeds().out.strip()
    until(lambda: shown(steps, group)["steps"][0]["state"], "the first runs", lambda state: state == "running")
    leader = json.loads((steps.state / "sweeps" / group / "sweep.json").read_text())["launcher"]["pid"]
    for _ in range(20):  # the job writes meanwhile, and what it has renamed is not there any more
        shutil.rmtree(steps.state, ignore_errors=True)
    until(lambda: not Path(f"/proc/{leader}").exists(), "its process ends")
