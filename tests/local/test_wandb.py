"""`[wandb]` of a local job, from outside: the real package, offline and against a server on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from labs.fixtures import served
from labs.wandb import ENVIRONMENTS, KEY, WandbLab
from support import HEADER, Project, process

pytestmark = pytest.mark.slow

SECTION = """\
[artifacts]
backend = "file"
[wandb]
project = "nemotron"
entity = "team"
tags = ["first", "second"]
job_type = "training"
"""
APPENDS = """\
import json, os
for step in range(1, 6):
    with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as file:
        file.write(json.dumps({"step": step, "total_steps": 5, "loss": 1 / step}) + "\\n")
"""
REPORTS = """\
import wandb
with wandb.init() as run:
    run.log({"loss": 0.5})
"""


@pytest.fixture
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WandbLab]:
    yield from served("wandb", lambda folder: WandbLab(), request, tmp_path_factory)


@pytest.fixture
def project(project: Project) -> Project:
    """One whose environments are made once for all of these tests."""
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    project.state.mkdir()
    (project.state / "envs").symlink_to(ENVIRONMENTS)
    project.write("train.py", APPENDS)
    project.write("env.toml", SECTION + "forward = true\n")
    return project


def online(project: Project, lab: WandbLab, *more: str) -> dict[str, str]:
    """The project's section, for the server; the variables of a person who is logged in there."""
    project.write("env.toml", "\n".join([SECTION, f'base_url = "{lab.origin}"', *more]))
    return {"WANDB_BASE_URL": lab.origin, "WANDB_API_KEY": KEY}


def recorded(project: Project) -> dict[str, str]:
    """What the last job's record has of its run."""
    found: dict[str, str] = process(project, "jobs", "show", "last", "--json").succeeds().json["wandb"]
    return found


def shown(project: Project) -> str:
    """The row of `jobs show`."""
    lines = process(project, "jobs", "show", "last").succeeds().out.splitlines()
    return next(line.strip() for line in lines if line.strip().startswith("W&B"))


def test_metrics_are_sent_on_with_all_that_the_section_says(project: Project, lab: WandbLab) -> None:
    given = online(project, lab, 'group = "mine"', 'name = "a name"', "forward = true")
    done = process(project, "run", "./train.py", **given).succeeds()
    [(key, run)] = lab.runs.items()
    assert key == f"team/nemotron/{run.id}"
    assert run.losses() == [1 / step for step in range(1, 6)]
    assert run.exit_code == 0
    told = {name: run.told[name] for name in ("displayName", "groupName", "jobType", "tags")}
    assert told == {"displayName": "a name", "groupName": "mine", "jobType": "training", "tags": ["first", "second"]}
    url = f"{lab.origin}/team/nemotron/runs/{run.id}"
    assert recorded(project) == {"id": run.id, "url": url, "state": "finished"}
    assert shown(project) == f"W&B        {url} (finished)"
    assert f"nemotron: W&B: {url}" in done.out
    assert "warning" not in done.err.lower()


def test_offline_nothing_is_asked_and_the_run_lies_below_the_job(project: Project) -> None:
    project.write("env.toml", SECTION + 'mode = "offline"\nforward = true\n')
    before = set(project.folder.rglob("*"))
    done = process(project, "run", "./train.py").succeeds()
    run = recorded(project)
    [kept] = (project.state / "jobs" / run["id"] / "wandb").glob(f"offline-run-*-{run['id']}")
    assert run["state"] == "offline"
    assert b"total_steps" in (kept / f"run-{run['id']}.wandb").read_bytes()
    assert f"wandb sync {kept}" in done.out
    assert "wandb: WARNING" not in done.out + done.err
    assert set(project.folder.rglob("*")) == before


def test_without_a_key_the_run_is_kept_and_that_is_said(project: Project) -> None:
    done = process(project, "run", "./train.py").succeeds()
    assert "the run is kept here (no WANDB_API_KEY was found); to send it: wandb sync" in done.out
    assert recorded(project)["state"] == "offline"


def test_a_job_that_fails_is_a_run_that_failed(project: Project, lab: WandbLab) -> None:
    project.write("train.py", APPENDS + "raise SystemExit(3)\n")
    assert process(project, "run", "./train.py", **online(project, lab, "forward = true")).code == 3
    [run] = lab.runs.values()
    assert (run.exit_code, recorded(project)["state"]) == (3, "failed")
    assert len(run.losses()) == 5


def test_a_key_that_is_refused_costs_the_run_and_not_the_job(project: Project, lab: WandbLab) -> None:
    given = {**online(project, lab, "forward = true"), "WANDB_API_KEY": "other" * 8}
    done = process(project, "run", "./train.py", **given).succeeds()
    assert "nemotron: W&B: metrics are not sent on" in done.out
    assert recorded(project)["state"] == "none"
    assert not lab.runs


def test_a_script_that_reports_by_itself_has_its_run_in_the_record_too(project: Project, lab: WandbLab) -> None:
    project.recipe("own", header=HEADER.replace("[]", '["wandb"]'), body=REPORTS)
    done = process(project, "own", **online(project, lab)).succeeds()
    [run] = lab.runs.values()
    url = f"{lab.origin}/team/nemotron/runs/{run.id}"
    assert run.losses() == [0.5]
    assert recorded(project) == {"id": run.id, "state": "finished"}
    assert shown(project) == f"W&B        {url} (finished)", done.out


def test_the_runs_of_a_sweep_are_a_group(project: Project, lab: WandbLab) -> None:
    project.recipe("own", body=APPENDS)
    process(project, "own", "-m", "value=1,2", **online(project, lab, "forward = true")).succeeds()
    runs = list(lab.runs.values())
    assert len(runs) == 2
    groups = {process(project, "jobs", "show", run.id, "--json").succeeds().json["group"] for run in runs}
    assert {run.told["groupName"] for run in runs} == groups
    assert len(groups) == 1
    assert sorted(run.config["value"] for run in runs) == [1, 2]


def test_a_plan_applied_again_is_another_run(project: Project, lab: WandbLab) -> None:
    given = online(project, lab, "forward = true")
    process(project, "run", "./train.py", "--dry-run", "--out", "plan.json", **given).succeeds()
    for _ in range(2):
        process(project, "apply", "plan.json", **given).succeeds()
    assert len(lab.runs) == 2
    names = json.loads(Path(project.folder / "plan.json").read_text())["name"]
    assert names in {run.id for run in lab.runs.values()}
