"""Jobs of the Lepton lab made directly, without a plan: a command, and how it is found."""

from __future__ import annotations

import time
import uuid
from typing import Any

from labs.lepton.job import Job
from labs.lepton.lab import LeptonLab
from labs.lepton.life import Life

from nemo_runspec.backends.lepton.api import LeptonApi
from nemo_runspec.backends.lepton.credentials import LeptonLogin
from nemo_runspec.backends.lepton.payload import ATTEMPT_LABEL, JOB_LABEL


def api_of(lab: LeptonLab, patience: float = 10.0) -> LeptonApi:
    """A client of the lab's workspace."""
    return LeptonApi(LeptonLogin(lab.workspace, lab.url, lab.token, source="the test"), patience=patience)


def body_of(name: str, script: str = "true", nodes: int = 1, **spec: Any) -> dict[str, Any]:
    """A job that runs a shell script on every node."""
    return {
        "metadata": {"id": name, "name": name, "labels": {JOB_LABEL: name, ATTEMPT_LABEL: "0"}},
        "spec": {
            "resource_shape": "cpu.small",
            "container": {"image": "ubuntu:24.04", "command": ["/bin/bash", "-c", script]},
            "completions": nodes,
            "parallelism": nodes,
            "intra_job_communication": nodes > 1,
            "log": {"enable_collection": True, "save_termination_logs": True},
            "ttl_seconds_after_finished": 3600,
            **spec,
        },
    }


def new_name() -> str:
    """A name that no other job has."""
    return f"kit-{uuid.uuid4().hex[:10]}"


def run(lab: LeptonLab, script: str, nodes: int = 1, name: str = "", **spec: Any) -> tuple[Job, dict[str, Any]]:
    """Makes a job; it, and its handle."""
    name = name or new_name()
    id = api_of(lab).create(body_of(name, script, nodes, **spec))["metadata"]["id"]
    return lab.jobs[-1], handle_of(lab, name, id=id, nodes=nodes, since=time.time())


def handle_of(lab: LeptonLab, name: str, **more: Any) -> dict[str, Any]:
    """How a job is found."""
    return {"name": name, "job_dir": f"/run/jobs/{name}", "workspace": lab.workspace, "url": lab.url, **more}


def planted(lab: LeptonLab, count: int, state: str) -> list[dict[str, Any]]:
    """Handles of jobs that only stand in the list: nothing of them runs."""
    handles = []
    for _ in range(count):
        name = new_name()
        job = Job(f"{name}-abcd", name, body_of(name), state=state)
        lab.lives.append(Life(lab, job))
        handles.append(handle_of(lab, name, id=job.id, nodes=1, since=job.created))
    return handles
