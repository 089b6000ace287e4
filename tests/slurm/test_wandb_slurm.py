"""A job on a real Slurm and its run on W&B: one for all attempts, known from the login node alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from labs.wandb import KEY, WandbLab, wandb_python
from slurm_jobs import LabHost, slurm_plan, start, wait

from nemo_runspec.backends.slurm.observe import collect_results
from nemo_runspec.backends.slurm.observe import job_statuses as look_at
from nemo_runspec.plans.model import EnvVar

pytestmark = needs_slurm

TWICE = """
import json, os, sys
attempt = int(os.environ["NEMOTRON_ATTEMPT"])
with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as file:
    file.write(json.dumps({"step": attempt + 1, "loss": 1.0 / (attempt + 1)}) + "\\n")
sys.exit(9 if attempt == 0 else 0)
"""


@pytest.fixture
def wandb_lab(slurm_lab_plain: SlurmLab) -> Iterator[WandbLab]:
    """Where the cluster's nodes reach this machine."""
    lab = WandbLab(slurm_lab_plain.outside)
    try:
        yield lab
        lab.tidy()
    finally:
        lab.close()


def test_a_requeued_job_goes_on_with_its_run(
    slurm_lab_plain: SlurmLab, wandb_lab: WandbLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    host = LabHost(slurm_lab_plain)
    given = {"WANDB_PROJECT": "nemotron", "WANDB_ENTITY": "team", "WANDB_BASE_URL": wandb_lab.origin}
    setup = (f"export NEMOTRON_WANDB_PYTHON={wandb_python(monkeypatch)}",)
    plan = dataclasses.replace(
        slurm_plan(tmp_path, TWICE, {"retries": 1}, setup=setup),
        run={"env": {}, "wandb": {"forward": True}},
        env=tuple(EnvVar(name, value, "run.wandb.x") for name, value in given.items()),
    )
    job = start(host, plan, secrets={"WANDB_API_KEY": KEY})
    seen = wait(host, job)
    assert (seen.state, seen.restarts) == ("succeeded", 1)
    [(key, run)] = wandb_lab.runs.items()
    assert key == f"team/nemotron/{plan.name}"
    assert (run.made > 1, run.losses(), run.exit_code) == (True, [1.0, 0.5], 0)
    handle = {"id": job.id, "name": plan.name, "job_dir": plan.job_dir}
    found = collect_results(host, [handle], look_at(host, [handle]))[0].wandb
    url = f"{wandb_lab.origin}/team/nemotron/runs/{plan.name}"
    assert found == {"id": plan.name, "url": url, "state": "finished"}
