"""What the tests of run:ai share: a profile for the lab, the API as a job's handle reaches it, workloads of a kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labs.runai.model import Workload
from labs.runai.server import RunaiLab
from support import Outcome, Project

from nemo_runspec.backends.dgxcloud.api import RunaiApi, connect

SECRET = "RUNAI_LAB_SECRET"

PROFILE = """\
[dgx]
executor = "dgxcloud"
base_url = "{lab.base_url}"
client_id = "{lab.client_id}"
client_secret = "${{oc.env:RUNAI_LAB_SECRET}}"
project_name = "{lab.project}"
container_image = "lab/any"
pvc_nemo_run_dir = "/data/nemo_run"
pvcs = [{{ claimName = "data", path = "/data" }}]
"""

KUBE = 'kube_apiserver_url = "{lab.kube_url}"\n'


def profile(project: Project, lab: RunaiLab, more: str = "", *, kube: bool = True) -> None:
    """Writes the profile `dgx`; its secret stands in the environment."""
    text = (PROFILE + (KUBE if kube else "")).format(lab=lab)
    project.write("env.toml", f"{text}{more}\n")
    project.extra[SECRET] = lab.client_secret


def handle(lab: RunaiLab, name: str = "job-1", **more: Any) -> dict[str, Any]:
    """A job's handle, as a submission of the lab's profile would make it."""
    found = {
        "name": name,
        "job_dir": f"/data/nemo_run/jobs/{name}",
        "base_url": lab.base_url,
        "client_id": lab.client_id,
        "project": lab.project,
        "kind": "trainings",
        "kube": lab.kube_url,
        "nodes": 1,
    }
    return {**found, **more}


def api_of(lab: RunaiLab, **more: Any) -> RunaiApi:
    """The API of the lab's application."""
    return connect(handle(lab, **more), {"client_secret": lab.client_secret})


def workload(lab: RunaiLab, name: str, phase: str, kind: str = "trainings", **more: Any) -> Workload:
    """A workload in some phase, whose life nobody leads."""
    request = {"name": name, "spec": {"image": "lab/any", "command": "true"}}
    made = Workload(kind, name, request, lab.mine, phase=phase, **more)
    made.over.set()
    lab.workloads[made.id] = made
    return made


def payload(lab: RunaiLab, name: str, command: str = "exit 0", **spec: Any) -> dict[str, Any]:
    """A small workload of one node."""
    usual = {"image": "lab/any", "command": "/bin/bash", "args": f"-c '{command}'", "backoffLimit": 0}
    spec = {**usual, "restartPolicy": "Never", **spec}
    return {"name": name, "projectId": lab.mine.id, "clusterId": lab.cluster_id, "spec": spec}


def job_folder(project: Project) -> Path:
    """The only job's folder on this machine."""
    (folder,) = [path for path in (project.state / "jobs").iterdir() if (path / "record.json").exists()]
    return folder


def said(outcome: Outcome) -> list[str]:
    """The lines a job wrote, without nemotron's own."""
    return [line for line in outcome.out.splitlines() if not line.startswith("nemotron")]
