"""Jobs that really fail, each in its own way, on a real Slurm; and what is said of them."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clusterkit import LabHost, slurm_plan, start, wait
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from labs.slurm.process import until

from nemo_runspec.backends.slurm.arguments import job_name
from nemo_runspec.backends.slurm.cluster.job import Asked, ClusterJob
from nemo_runspec.backends.slurm.diagnose import diagnose
from nemo_runspec.backends.slurm.rest import rest
from nemo_runspec.backends.slurm.seen import look
from nemo_runspec.planning.model import Plan
from nemo_runspec.remote.provider import Diagnosis
from nemo_runspec.script.markers import NodeMarker

EVER = "import pathlib, time; pathlib.Path('begun').touch(); print('begun', flush=True); time.sleep(600)"


@dataclasses.dataclass(frozen=True)
class Ended:
    """A failed job and what is said of it."""

    seen: Any
    diagnosis: Diagnosis


class Ward:
    """Jobs that were submitted together."""

    def __init__(self, lab: SlurmLab, top: Path) -> None:
        self.lab, self.host, self.top = lab, LabHost(lab), top
        self.jobs: dict[str, tuple[Plan, Asked]] = {}

    def admit(self, name: str, script: str, profile: dict[str, Any] | None = None, **values: Any) -> None:
        top = self.top / name
        top.mkdir()
        plan = slurm_plan(top, script, {"exclude": "n4", **(profile or {})}, **values)
        self.jobs[name] = (plan, start(self.host, plan))

    def handle(self, name: str) -> dict[str, Any]:
        plan, job = self.jobs[name]
        return {"name": job_name(plan), "job_dir": plan.job_dir, "nodes": plan.resources.nodes, "id": job.id}

    def ended(self, name: str) -> Ended:
        wait(self.host, self.jobs[name][1], seconds=180)
        handles = [self.handle(name)]
        seen = look(self.host, handles)
        diagnosis = rest(self.host, handles, seen)[0].diagnosis
        assert diagnosis is not None, seen
        return Ended(seen[0], diagnosis)

    def said(self, name: str) -> str:
        return "".join(
            file.read_text(errors="replace") for file in sorted(Path(self.jobs[name][0].job_dir).glob("*.out"))
        )


GROUP = f"/sys/fs/cgroup/memory/nemotron-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def ward(slurm_lab: SlurmLab, tmp_path_factory: pytest.TempPathFactory) -> Ward:
    """All of them at once: Slurm looks for what is over, and for lost nodes, twice a minute."""
    ward = Ward(slurm_lab, tmp_path_factory.mktemp("ward"))
    ward.admit("late", EVER)
    ward.admit("lost", EVER, {"exclude": "n1,n2,n3", "additional_parameters": {"no_requeue": True}})
    ward.admit("import", "import os, time\ntime.sleep(3 * (os.environ['RANK'] == '0'))\nimport not_there_9", nodes=2)
    ward.admit("image", "print('never')", {"container_image": "/nowhere/nemo.sqsh"})
    ward.admit("registry", "print('never')", {"container_image": "nvcr.io/nvidia/gone:1"})
    setup = ('[ "$NEMOTRON_NODE_RANK" = 0 ] || pip-of-nobody install x',)
    ward.admit("setup", "print('never')", nodes=2, setup=setup)
    ward.admit("srun", "print('never')", {"srun_args": ["--no-such-option"]})
    ward.admit("silent", "import sys; print('step 1'); print('the end'); sys.exit(3)")
    for name in ("late", "lost"):
        until(lambda name=name: "begun" in ward.said(name), f"{name} has begun", 60)
    slurm_lab.run("scontrol", "update", f"JobId={ward.jobs['late'][1].id}", "TimeLimit=0")
    slurm_lab.set_node_down("n4")
    return ward


def test_all(ward):
    for name in ward.jobs:
        e = ward.ended(name)
        print("=====", name, e.seen.state, e.seen.reason, e.seen.detail.slurm_state, e.seen.detail.slurm_reason)
        print(e.diagnosis)
        print(ward.said(name))
