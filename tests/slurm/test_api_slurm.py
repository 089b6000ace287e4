"""Jobs from Python on a real Slurm: submitted, followed, ended, run again, and a sweep that nobody here leads."""

from __future__ import annotations

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from support import Project

import nemo_runspec

pytestmark = [needs_slurm, pytest.mark.slow]

PROFILE = """\
[lab]
executor = "slurm"
partition = "batch"
nodes = 1
time = "00:05:00"
remote_job_dir = "{top}/run"
"""
SCRIPT = """\
import json, os, sys, time
print("lr", os.environ["LR"], flush=True)
with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as metrics:
    metrics.write(json.dumps({"step": 1, "loss": 2 * float(os.environ["LR"])}) + "\\n")
time.sleep(float(sys.argv[1]))
sys.exit(int(sys.argv[2]))
"""
LR = "+run.env.env_vars.LR="


@pytest.fixture
def script(project: Project, tmp_path, slurm_lab_plain: SlurmLab, monkeypatch: pytest.MonkeyPatch) -> str:
    project.write("env.toml", PROFILE.format(top=tmp_path))
    for name, value in slurm_lab_plain.environment().items():
        monkeypatch.setenv(name, value)
    return str(project.write("fit.py", SCRIPT))


def submitted(script: str, *args: str) -> nemo_runspec.api.job.Job:
    return nemo_runspec.submit(nemo_runspec.plan(script, profile="lab", overrides=[f"{LR}0.5"], args=args))


def test_a_job_from_its_start_to_its_retry(script, capfd):
    job = submitted(script, "0", "3")
    assert list(job.logs(follow=True)) == ["lr 0.5"]
    assert job.wait() == 3
    assert (job.status().state, job.status().exit_code) == ("failed", 3)
    assert job.metrics() == {"step": 1, "loss": 1}
    assert job.diagnose() is not None
    again = job.retry()
    assert again.wait() == 3 and again.record.retry_of == job.name
    assert capfd.readouterr() == ("", ""), "a library prints nothing"


def test_a_job_is_ended(script):
    job = submitted(script, "600", "0")
    assert next(job.logs(follow=True)) == "lr 0.5"
    assert job.cancel().state == "cancelled"
    assert nemo_runspec.jobs() == [job]


def test_a_sweep_is_left_to_the_queue(script):
    sweep = nemo_runspec.sweep(script, profile="lab", overrides=[f"{LR}0.5,0.25"], args=["0", "0"])
    assert sweep.wait() == 0
    best = sweep.best()
    assert best is not None and best.metrics()["loss"] == 0.5 and len(sweep.runs) == 2
    assert best.record.handle["array"], "one job array"


KNOWS = """\
# /// script
# [tool.runspec]
# [tool.runspec.run]
# launch = "direct"
# cmd = "python3 {script}"
# [[tool.runspec.errors]]
# pattern = "no blend at .+"
# cause = "The data are not prepared."
# remedy = "prepare them"
# ///
raise SystemExit("no blend at /data")
"""


def test_an_error_that_the_recipe_knows_is_told_when_the_recipe_is_gone(project, script):
    recipe = project.write("knows.py", KNOWS)
    job = nemo_runspec.submit(nemo_runspec.plan(str(recipe), profile="lab"))
    recipe.unlink()
    assert job.wait() == 1
    found = job.diagnose()
    assert found is not None and (found.kind, found.what) == ("known error", "The data are not prepared.")
    assert (found.evidence, found.remedy) == ("no blend at /data", "prepare them")
