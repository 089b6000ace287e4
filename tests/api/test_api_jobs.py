"""Jobs from Python: submitted, waited for, read, ended, run again, found by another process. All of them are real."""

from __future__ import annotations

import subprocess
import sys

import pytest
from input_recipes import write_recipes
from support import contents
from waiting import until

import nemo_runspec
from nemo_runspec.errors import UserError
from nemo_runspec.sweeps.status import Status


def submitted(*overrides: str) -> nemo_runspec.api.job.Job:
    return nemo_runspec.submit(nemo_runspec.plan("mine/train", overrides=overrides))


@pytest.fixture
def waits(trains, tmp_path):
    """A job that waits for a file, and that file. It is ended at the end."""
    go = tmp_path / "go"
    job = submitted(f"wait={go}")
    yield job, go
    go.touch()
    job.cancel(grace=0)


def test_a_job_that_succeeds(trains, capfd):
    job = submitted("lr=0.25")
    assert job.wait() == 0
    assert job.status() == Status("succeeded", "", 0) and job.status().over
    assert list(job.logs()) == list(job.logs(follow=True)) == ["lr 0.25"]
    assert list(job.logs(tail=0)) == []
    assert job.metrics() == {"step": 1, "loss": 0.5}
    assert job.diagnose() is None
    assert job.record.argv == ("nemotron", "mine", "train", "-c", "default", "lr=0.25")
    assert capfd.readouterr() == ("", ""), "a library prints nothing"


def test_a_job_that_fails_raises_nothing(trains):
    job = submitted("fail=3")
    assert job.wait() == 3
    assert (job.status().state, job.status().exit_code) == ("failed", 3)
    assert repr(job).startswith(f"<Job {job.name}: failed, exit code 3, mine/train, local")


def test_what_happens_is_told_to_who_asks(trains):
    told: list[str] = []
    job = nemo_runspec.submit(nemo_runspec.plan("mine/train"), say=told.append)
    assert job.wait() == 0
    assert f"{job.name}: runs on without this terminal" in told


def test_who_cannot_be_told_loses_no_job(trains):
    def say(text: str) -> None:
        raise OSError("no room")

    with pytest.warns(RuntimeWarning, match="no room"):
        job = nemo_runspec.submit(nemo_runspec.plan("mine/train"), say=say)
    assert job.wait() == 0


def test_mistakes_are_user_errors(trains):
    with pytest.raises(UserError, match="no recipe 'mine/trian'"):
        nemo_runspec.plan("mine/trian")
    with pytest.raises(UserError, match="no job is recorded yet"):
        nemo_runspec.job("gone")
    plan = nemo_runspec.plan("mine/train")
    for script in (trains.folder / "recipes" / "mine" / "train").glob("*.py"):
        script.unlink()
    with pytest.raises(UserError, match="cannot read"):
        nemo_runspec.submit(plan)
    assert nemo_runspec.jobs() == []


@pytest.mark.slow
def test_a_job_is_followed_and_ended(waits):
    job, _ = waits
    with pytest.raises(TimeoutError, match=f"job '{job.name}' is"):
        job.wait(timeout=0.01)
    lines = job.logs(follow=True)
    assert next(lines) == "lr 0.5"
    assert job.status().exit_code is None
    ended = job.cancel()
    assert (ended.state, ended.exit_code) == ("cancelled", 143) and "cancelled by nemo_runspec" in ended.reason
    assert list(lines) == [] and job.wait() == 143
    assert job.cancel() == ended, "what is over stays as it is"


@pytest.mark.slow
def test_a_job_is_run_again(trains):
    job = submitted("fail=4", "lr=0.75")
    assert job.wait() == 4
    again = job.retry()
    assert again != job and again.wait() == 4
    assert again.record.retry_of == job.name and list(again.logs()) == ["lr 0.75"]


@pytest.mark.slow
def test_a_job_that_goes_on_is_not_run_again(waits):
    job, _ = waits
    with pytest.raises(UserError, match="end it first"):
        job.retry()


@pytest.mark.slow
def test_a_plan_is_run_twice_under_two_names(trains):
    plan = nemo_runspec.plan("mine/train")
    first, second = nemo_runspec.submit(plan), nemo_runspec.submit(plan)
    assert (first.wait(), second.wait()) == (0, 0)
    assert first.name == plan.name != second.name
    assert nemo_runspec.jobs() == [second, first]


@pytest.mark.slow
def test_a_saved_plan_is_run_as_it_was_shown(trains, tmp_path):
    plan = nemo_runspec.plan("mine/train", overrides=["lr=0.125"])
    loaded = nemo_runspec.load_plan(plan.save(tmp_path / "plan.json"))
    assert loaded == plan
    nemo_runspec.api.submit._made.clear()  # as in another process
    job = nemo_runspec.submit(loaded)
    assert job.wait() == 0 and list(job.logs()) == ["lr 0.125"]


SECRET = "hunter2-is-no-secret-any-more"


@pytest.mark.slow
def test_a_secret_reaches_the_job_and_no_file(trains):
    job = submitted(f"+run.env.env_vars.MY_TOKEN={SECRET}")
    assert job.wait() == 0 and job.metrics()["token"] == len(SECRET)
    for folder in (trains.folder, trains.state):
        assert [path for path, content in contents(folder).items() if SECRET.encode() in content] == []


@pytest.mark.slow
def test_a_missing_input_is_made_first(project):
    write_recipes(project)
    told: list[str] = []
    job = nemo_runspec.submit(nemo_runspec.plan("mine/read"), say=told.append)
    assert job.wait() == 0
    [maker] = set(nemo_runspec.jobs()) - {job}
    assert maker.record.recipe == "mine/make" and list(job.logs()) == [f"read: made by {maker.name}"]
    assert "data: 'words' is not there yet; running mine/make first" in told


@pytest.mark.slow
def test_an_input_that_cannot_be_made_is_an_error_with_its_code(project):
    write_recipes(project)
    plan = nemo_runspec.plan("mine/read", config="failing")
    with pytest.raises(UserError, match="has ended with exit code 5") as error:
        nemo_runspec.submit(plan)
    [maker] = nemo_runspec.jobs()
    assert error.value.exit_code == 5 and maker.name in str(error.value.remedy)


ELSEWHERE = """
import nemo_runspec
[job] = nemo_runspec.jobs()
print(job.name, job.status().state, next(job.logs(follow=True)), flush=True)
open({go!r}, "w").close()
print(nemo_runspec.job("last").wait())
"""


@pytest.mark.slow
def test_another_process_finds_it(waits, trains):
    job, go = waits
    until(lambda: job.status().state == "running")
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE.format(go=str(go))],
        env=trains.environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split("\n")[:2] == [f"{job.name} running lr 0.5", "0"]
    assert job.wait() == 0


SUBMITS = """
import nemo_runspec
print(nemo_runspec.submit(nemo_runspec.plan("mine/train", overrides=["wait={go}"])).name)
"""


@pytest.mark.slow
def test_it_outlives_who_has_submitted_it(trains, tmp_path):
    go = tmp_path / "go"
    done = subprocess.run(
        [sys.executable, "-c", SUBMITS.format(go=go)],
        env=trains.environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    [job] = nemo_runspec.jobs()
    assert done.stdout == f"{job.name}\n" and not job.status().over
    go.touch()
    assert job.wait() == 0
