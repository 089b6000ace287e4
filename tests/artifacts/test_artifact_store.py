"""The file store of artifacts: what is a version, which inputs are the newest ones, and what a job registers."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from job_scripts import NAME, plan_for, run_script

from nemo_runspec.artifacts.store import (
    known_inputs,
    latest_path,
    newest_inputs,
    resolve_latest,
    version_path,
    versions_of,
)
from nemo_runspec.plans.model import Artifact, EnvVar


def plan_of(tmp_path, *artifacts: Artifact):
    return replace(plan_for(tmp_path), produces=artifacts)


def stored(root, name: str) -> Artifact:
    """An output that a job has written to the store."""
    path = root / name / NAME
    path.mkdir(parents=True, exist_ok=True)
    assert str(path) == version_path(str(root), name, NAME)
    return Artifact(name, "model", artifact=name, path=str(path))


def register(*paths: Path | str, **environment: str) -> str:
    """What jobs register with; what it says."""
    words = [sys.executable, "-c", REGISTERS, "1", *map(str, paths)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == ""
    return done.stdout


REGISTERS = """
import sys
from nemo_runspec.jobside.registration import JobPlace, register
for _ in range(int(sys.argv[1])):
    sys.stdout.write("".join(line + chr(10) for line in register(sys.argv[2:], JobPlace())))
"""


def test_the_newest_is_what_was_registered_last(tmp_path):
    root = tmp_path / "my store"
    assert resolve_latest(str(root), "model") is None
    (root / "model" / "older").mkdir(parents=True)
    (root / "model" / "latest").symlink_to("older")
    model = stored(root, "model")
    nothing = Artifact("data", "data", artifact="data", path=version_path(str(root), "data", NAME))
    assert versions_of(plan_of(tmp_path, model, nothing)) == (model.path, nothing.path)
    assert register(model.path, nothing.path) == ""
    assert resolve_latest(str(root), "model") == model.path
    assert (root / "model" / "latest").readlink().name == NAME
    assert not (root / "data").exists()


def test_what_a_job_that_died_has_left_stands_in_nobodys_way(tmp_path):
    model = stored(tmp_path, "model")
    (tmp_path / "model" / f".latest.{NAME}").symlink_to("something")
    assert register(model.path) == ""
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [".versions", "latest", NAME, "v1"]


@pytest.mark.slow
def test_two_jobs_at_once_both_succeed_and_a_reader_always_finds_one(tmp_path):
    """Many jobs register in the same folder, while somebody reads."""
    jobs = [tmp_path / "model" / f"job-{number}" for number in range(8)]
    for job in jobs:
        job.mkdir(parents=True)
    register(jobs[0])
    words = [sys.executable, "-c", REGISTERS, "400"]
    running = [subprocess.Popen([*words, str(job)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for job in jobs]
    seen = set()
    while any(each.poll() is None for each in running):
        seen.add(resolve_latest(str(tmp_path), "model"))
    assert [each.communicate()[0] for each in running] == [b""] * len(jobs)
    assert None not in seen and seen <= set(map(str, jobs))
    numbers = {f"v{number}" for number in range(1, 9)}
    assert {p.name for p in (tmp_path / "model").iterdir()} == {
        "latest",
        ".versions",
        *numbers,
        *(j.name for j in jobs),
    }


@pytest.mark.parametrize("artifact", ["model", None])
def test_a_folder_that_is_not_the_stores_has_no_versions(tmp_path, artifact):
    path = tmp_path / "out" / "model"
    assert versions_of(plan_of(tmp_path, Artifact("model", "model", artifact=artifact, path=str(path)))) == ()


def test_a_latest_that_cannot_be_moved_is_one_line_and_the_others_are_moved(tmp_path):
    root = tmp_path / "store"
    (root / "model" / "latest" / "full").mkdir(parents=True)
    model, data = stored(root, "model"), stored(root, "data")
    said = register(model.path, data.path, LC_ALL="C")
    what = f"model ({model.path}): v1 is there, and {root}/model/latest does not lead to it: "
    assert said.startswith(what) and said.count("\n") == 1
    assert resolve_latest(str(root), "data") == data.path


def test_a_link_that_leads_nowhere_is_no_newest(tmp_path):
    for target in ("latest", "gone"):
        folder = tmp_path / target / "model"
        folder.mkdir(parents=True)
        (folder / "latest").symlink_to(target)
        assert resolve_latest(str(tmp_path / target), "model") is None
    assert latest_path("/r", "model") == "/r/model/latest"


def test_which_inputs_a_plan_names_itself(tmp_path):
    plan = replace(
        plan_for(tmp_path),
        consumes=(
            Artifact("data", "data", artifact="words", path="/s/words/latest"),
            Artifact("base", "model", artifact="base", path="/s/base/a-job"),
            Artifact("named", "data", path="/d/latest"),
            Artifact("odd", "data", artifact="o", path="/s \u00fc/o/latest"),
            Artifact("none", "data"),
        ),
    )
    assert newest_inputs(plan) == {"data": "/s/words/latest"}
    assert known_inputs(plan) == {"base": "/s/base/a-job", "named": "/d/latest"}


READS = """
import os, pathlib, sys
text = pathlib.Path(os.environ["NEMOTRON_JOB_DIR"], "train.yaml").read_text()
print(text, os.environ["WORDS"], os.environ["OTHER"], sep="|", end="|", flush=True)
"""


def reading(top, root: Path):
    """A plan that reads the newest version of `words`, and says so in its configuration and variables."""
    latest = latest_path(str(root), "words")
    plan = plan_for(top, READS)
    words = Artifact("data", "data", artifact="words", path=latest)
    env = (EnvVar("WORDS", latest, "test"), EnvVar("OTHER", f"{latest}-2:{latest}/x", "test"))
    plan = replace(plan, consumes=(words,), env=env)
    text = f"data: {latest}\nfile: '{latest}/a.txt'\nother: {latest}-2\nlast: {latest}"
    Path(plan.job_dir).mkdir(parents=True)
    Path(plan.job_dir, "train.yaml").write_text(text)
    return plan, latest, text


@pytest.mark.parametrize("name", ["store", "st.re+x"])
def test_the_newest_when_the_job_starts_is_what_it_reads_and_says(tmp_path, name):
    root = tmp_path / name
    plan, latest, _ = reading(tmp_path, root)
    version = root / "words" / "first"
    version.mkdir(parents=True)
    register(version)
    code, out = run_script(plan, tmp_path)
    expected = f"data: {version}\nfile: '{version}/a.txt'\nother: {latest}-2\nlast: {version}"
    said = f"{expected}|{version}|{latest}-2:{version}/x|"
    assert (code, out.rstrip("\n")) == (0, said.rstrip("\n")), out
    assert f"path={version}\n" in (Path(plan.job_dir) / "status" / "input-data").read_text()
    (root / "words" / "second").mkdir()
    register(root / "words" / "second")
    code, out = run_script(plan, tmp_path)
    assert (code, "second" in out) == (0, False), "a job that is started again reads the same"


def test_an_input_without_a_version_is_left_as_it_is(tmp_path):
    plan, _, text = reading(tmp_path, tmp_path / "store")
    code, _ = run_script(plan, tmp_path)
    assert (code, Path(plan.job_dir, "train.yaml").read_text()) == (0, text)
    assert not (Path(plan.job_dir) / "status" / "input-data").exists()
