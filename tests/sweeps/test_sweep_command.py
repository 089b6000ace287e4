"""`-m` as it is typed: real processes, from the outside."""

from __future__ import annotations

import csv
import json
import signal
import stat

import pytest
from support import HEADER, contents, start
from waiting import LONG, until

SECRET = "hf_sweptsecretvalue"
TRAIN = ("mine", "train")


def group_of(project):
    (folder,) = (project.state / "sweeps").iterdir()
    return folder


def members_of(folder):
    return json.loads((folder / "sweep.json").read_text())["members"]


def records_of(project):
    return [json.loads(file.read_text()) for file in sorted((project.state / "jobs").glob("*/record.json"))]


def results_of(folder):
    return list(csv.DictReader((folder / "results.csv").open()))


@pytest.mark.slow
def test_every_combination_has_its_own_job_and_the_end_is_a_table(trains, nemotron_process):
    done = nemotron_process(*TRAIN, "-m", "lr=1e-3,3e-4", "seed=1,2", "run.env.max_parallel=2").succeeds()
    folder, records = group_of(trains), records_of(trains)
    assert len(records) == 4
    assert {r["group"] for r in records} == {folder.name}
    assert {r["states"][-1]["state"] for r in records} == {"succeeded"}
    assert {m["name"] for m in members_of(folder)} == {r["name"] for r in records}
    rows = results_of(folder)
    assert [(r["lr"], r["seed"], r["best"]) for r in rows] == [
        ("0.001", "1", "yes"), ("0.001", "2", ""), ("0.0003", "1", ""), ("0.0003", "2", ""),
    ]  # fmt: skip
    assert float(rows[0]["val_loss"]) == pytest.approx(2.01)
    assert (folder / "results.png").read_bytes().startswith(b"\x89PNG")
    assert "4 runs: 4 succeeded. * lowest val_loss 2.010: lr=0.001 seed=1" in done.out
    assert str(folder.name) in done.out
    assert "step" not in done.out  # a run's own output is in its own log only
    assert "lr 0.001" in (trains.state / "jobs" / rows[0]["job"] / "logs" / "job.log").read_text()
    assert all(stat.S_IMODE(f.stat().st_mode) & 0o077 == 0 for f in [folder, *folder.iterdir()])


@pytest.mark.slow
def test_a_failed_run_does_not_stop_the_others_and_is_not_hidden(trains, nemotron_process):
    done = nemotron_process(*TRAIN, "-m", "fail=7,0,9")
    assert done.code == 7  # the first one's own
    assert [r["exit_code"] for r in results_of(group_of(trains))] == ["0", "7", "9"]
    assert "#0 failed: " in done.out
    assert "exit code 7" in done.err
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_stop_on_failure(trains, nemotron_process):
    done = nemotron_process(*TRAIN, "-m", "fail=0,7,0,0", "run.env.stop_on_failure=true")
    assert done.code == 7
    assert [r["state"] for r in sorted(results_of(group_of(trains)), key=lambda r: r["index"])] == [
        "succeeded", "failed", "not run", "not run",
    ]  # fmt: skip
    assert len(records_of(trains)) == 2
    folder = group_of(trains)
    listed = nemotron_process("jobs", "list").out.splitlines()
    assert [line.split()[:2] for line in listed[1:]] == [[folder.name, "failed"]]
    assert nemotron_process("jobs", "wait", folder.name).code == 7


@pytest.mark.slow
def test_stop_on_failure_ends_those_that_run(trains, nemotron_process):
    """The other run would wait for ever: the sweep ends it, and is no less failed for that."""
    wait = trains.folder / "wait"
    wait.mkdir()
    words = ("fail=0,7", f"wait={wait},null", "run.env.max_parallel=4", "run.env.stop_on_failure=true")
    done = nemotron_process(*TRAIN, "-m", *words)
    assert done.code == 7
    assert nemotron_process("jobs", "show", group_of(trains).name, "--json").json["state"] == "failed"
    (record,) = [r for r in records_of(trains) if r["states"][-1]["state"] == "cancelled" and f"wait={wait}" in str(r)][
        :1
    ]
    assert "the sweep, as run 3 has failed" in record["cause"]


@pytest.mark.slow
def test_a_sweep_of_one_run_is_a_sweep(trains, nemotron_process):
    nemotron_process(*TRAIN, "-m", "lr=0.1").succeeds()
    name = group_of(trains).name
    assert name in nemotron_process("jobs", "list").out
    assert nemotron_process("jobs", "wait", "last", "--json").succeeds().json[0]["name"] == name
    assert f"{name}   mine/train, succeeded" in nemotron_process("jobs", "show", "last").out


@pytest.mark.slow
def test_a_metric_that_no_run_has_told(trains, nemotron_process):
    """It is said, the picture shows another one, and none is called the best."""
    done = nemotron_process(*TRAIN, "-m", "lr=1e-3,1e-2", "run.env.sweep_metric=acc:max").succeeds()
    assert "no run has told 'acc'; there are: loss, step, val_loss" in done.out
    assert "*" not in done.out
    assert [r["best"] for r in results_of(group_of(trains))] == ["", ""]
    assert (group_of(trains) / "results.png").exists()


@pytest.mark.slow
def test_no_picture_is_explained(project, nemotron_process):
    project.recipe("mine/quiet", header=HEADER, body="print(1)\n", default="x: 1\n")
    done = nemotron_process("mine", "quiet", "-m", "x=1,2").succeeds()
    assert "picture  none: no run has told a metric" in done.out


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_what_runs_and_starts_nothing_more(trains, number, code):
    wait = trains.folder / "wait"
    wait.mkdir()
    child = start(trains, *TRAIN, "-m", "seed=1,2,3,4", f"wait={wait}", "run.env.max_parallel=2")
    until(lambda: child.poll() is not None or len(list(wait.glob("started-*"))) == 2, "two runs")
    child.send_signal(number)
    out, err = child.communicate(timeout=LONG)
    assert child.returncode == code, err
    states = [r["states"][-1]["state"] for r in records_of(trains)]
    assert states == ["cancelled", "cancelled"]
    assert sorted(r["state"] for r in results_of(group_of(trains))) == ["cancelled", "cancelled", "not run", "not run"]
    assert "4 runs: 2 cancelled, 2 not run" in out or "4 runs: 2 not run, 2 cancelled" in out
    assert json.loads((group_of(trains) / "sweep.json").read_text())["ended"]


def test_a_mistake_in_one_plan_runs_nothing(trains, nemotron):
    nemotron(*TRAIN, "-m", "lr=1,2", "nothere=1").refuses("no key 'nothere'")
    nemotron(*TRAIN, "-m", "run.env.nodes=1,x").refuses("nodes")
    nemotron(*TRAIN, "-m", "lr=1,2", "run.env.sweep_metric=acc:most").refuses("ends in ':most'")
    nemotron(*TRAIN, "-m", "lr=1,2", "--run", "lepton").refuses("no Lepton workspace is named")
    assert not trains.state.exists()


@pytest.mark.slow
def test_a_secret_that_is_swept_stays_secret(trains, nemotron_process):
    done = nemotron_process(*TRAIN, "-m", f"+run.env.env_vars.HF_TOKEN={SECRET}1,{SECRET}2", "seed=1").succeeds()
    assert SECRET not in done.out + done.err
    assert [file for file, content in contents(trains.state).items() if SECRET.encode() in content] == []
    assert len(results_of(group_of(trains))) == 2


@pytest.mark.slow
def test_the_metric_can_be_chosen(trains, nemotron_process):
    nemotron_process(*TRAIN, "-m", "lr=1e-3,1e-2", "run.env.sweep_metric=loss:max").succeeds()
    assert [(r["lr"], r["best"]) for r in results_of(group_of(trains))] == [("0.01", "yes"), ("0.001", "")]


MAKES = """
import pathlib, sys
folder = pathlib.Path(open(sys.argv[2]).read().partition("out: ")[2].strip())
folder.mkdir(parents=True)
(folder / "x").touch()
"""
READ = "run:\n  data:\n    artifact: d\n    recipe: mine/make\n    config: default\n    make: if-missing\n"


@pytest.mark.slow
def test_missing_inputs_are_made_once_for_all(project, nemotron_process):
    """Three runs that read the same thing: its recipe runs once, before them, and is no member."""
    block = '# [[tool.runspec.{}]]\n# name = "data"\n# type = "dataset"\n# ///\n'
    makes, reads = (HEADER.removesuffix("# ///\n") + block.format(what) for what in ("produces", "consumes"))
    project.recipe("mine/make", header=makes, body=MAKES, default="run: {data: {artifact: d}}\nout: ${run.data.path}\n")
    project.recipe(
        "mine/read",
        header=reads,
        body="import sys\nprint(open(sys.argv[2]).read())\n",
        default=f"{READ}x: 1\ndata: ${{run.data.path}}\n",
    )
    done = nemotron_process("mine", "read", "-m", "x=1,2,3", "run.env.max_parallel=3").succeeds()
    recipes = sorted(r["recipe"] for r in records_of(project))
    assert recipes == ["mine/make", "mine/read", "mine/read", "mine/read"]
    assert done.err.count("running mine/make first") == 1
    logs = [f.read_text() for f in (project.state / "jobs").glob("mine-read-*/logs/job.log")]
    assert len({log.partition("data: ")[2].splitlines()[0] for log in logs}) == 1
    assert len(members_of(group_of(project))) == 3


@pytest.mark.slow
def test_optuna(trains, nemotron_process):
    before = sorted(trains.folder.rglob("*"))
    done = nemotron_process(
        *TRAIN, "-m", "hydra/sweeper=optuna", "hydra.sweeper.n_trials=4", "hydra.sweeper.direction=minimize",
        "lr=tag(log,interval(1e-4,1e-2))", "run.env.max_parallel=2",
    ).succeeds()  # fmt: skip
    folder = group_of(trains)
    assert {r["group"] for r in records_of(trains)} == {folder.name}
    rows = results_of(folder)
    assert len(rows) == len({r["lr"] for r in rows}) == 4
    best = [r for r in rows if r["best"]]
    assert float(best[0]["val_loss"]) == min(float(r["val_loss"]) for r in rows)
    assert best[0]["lr"] in (folder / "optimization_results.yaml").read_text()
    assert "chosen by optuna" in done.err
    assert "[I 20" not in done.err  # Optuna's own log
    assert sorted(trains.folder.rglob("*")) == before


@pytest.mark.slow
def test_optuna_goes_on_after_failures_and_loss_that_is_no_number(trains, nemotron_process):
    done = nemotron_process(
        *TRAIN, "-m", "hydra/sweeper=optuna", "hydra/sweeper/sampler=random", "hydra.sweeper.sampler.seed=1",
        "hydra.sweeper.n_trials=10", "fail=choice(0,5)", "nan=choice(false,true)",
    )  # fmt: skip
    assert done.code == 5, done.err
    rows = results_of(group_of(trains))
    assert len(rows) == 10
    assert {(r["state"], r["val_loss"] == "nan") for r in rows} >= {("failed", True), ("succeeded", False)}


@pytest.mark.slow
def test_a_run_without_the_metric_cannot_lead_a_sweeper_on(trains, nemotron_process):
    words = (*TRAIN, "-m", "hydra/sweeper=optuna", "hydra.sweeper.n_trials=6", "lr=interval(1,2)")
    done = nemotron_process(*words, "run.env.sweep_metric=accuracy")
    assert done.code == 2
    assert "has written no metric 'accuracy'" in done.err
    assert "loss, step, val_loss" in done.err
    assert "2 runs: 2 succeeded" in done.out  # those that ran are shown all the same


def test_dry_runs_of_both_kinds_do_nothing(trains, nemotron):
    plain = nemotron(*TRAIN, "-m", "lr=1,2", "--dry-run").succeeds().out
    assert plain.startswith("2 runs\n")
    words = (
        *TRAIN,
        "-m",
        "hydra/sweeper=optuna",
        "hydra.sweeper.n_trials=4",
        "lr=interval(1,2)",
        "seed=5",
        "--dry-run",
    )
    text = nemotron(*words).succeeds().out
    assert text.startswith("4 runs of mine/train, chosen by optuna\n")
    assert "lr  interval(1,2)" in text
    assert "nothing was run" in text
    data = nemotron(*words, "--json").succeeds().json
    assert (data["sweeper"], data["space"]) == ("optuna", {"lr": "interval(1,2)"})
    assert data["example"]["plan"]["config"]["lr"] == 1.0
    assert not trains.state.exists()


def test_hydra_overrides_belong_to_a_sweep(trains, nemotron):
    for text in ("hydra/sweeper=optuna", "hydra.sweeper.n_trials=3", "+hydra.x=1"):
        nemotron(*TRAIN, text).refuses(f"'{text}' belongs to a sweep", "add -m")
    nemotron(*TRAIN, "-m", "hydra/sweeper=gone", "lr=1,2").refuses("no Hydra sweeper 'gone' is installed")


@pytest.mark.slow
def test_it_can_be_shown_again(trains, nemotron_process, capsys):
    from nemotron.cli.sweep_report import print_group

    nemotron_process(*TRAIN, "-m", "lr=1e-3,1e-2,1e-4").succeeds()
    name = group_of(trains).name
    capsys.readouterr()
    assert print_group(name, sort="lr") == 0
    rows = [row.split() for row in capsys.readouterr().out.splitlines() if " succeeded  " in row]
    assert [next(word for word in row if word.startswith("0.0")) for row in rows] == ["0.0001", "0.001", "0.01"]
    print_group(name[:-3], form="json")
    data = json.loads(capsys.readouterr().out)
    assert (data["metric"], [m["index"] for m in data["members"]]) == ("val_loss", [0, 1, 2])
    assert data["argv"][1:] == [*TRAIN, "-m", "lr=1e-3,1e-2,1e-4"]
