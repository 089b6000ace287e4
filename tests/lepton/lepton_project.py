"""A project whose jobs run on the Lepton lab, used from the outside: `nemotron` as processes."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.lepton.lab import LeptonLab
from support import Outcome, Project, make_project, process, start
from waiting import HASTY_CLIENT, open_gate

ENV = """\
[one]
executor = "lepton"
container_image = "ubuntu:24.04"
nemo_run_dir = "/mnt/lustre/run"
node_group = "h100-pool"
mounts = [{ path = "/", mount_path = "/mnt/lustre", from = "node-nfs:lustre" }]

[two]
extends = "one"
nodes = 2
"""

SCRIPT = """\
import os, pathlib, sys, time
print("hé llo 漢字 of", os.environ["NODE_RANK"], "of", os.environ["NNODES"], flush=True)
print("token", len(os.environ.get("MY_TOKEN", "")), flush=True)
time.sleep(float(os.environ.get("SECONDS_TO_RUN", "0")))
top, attempt = pathlib.Path(os.environ["NEMOTRON_JOB_DIR"]), os.environ["NEMOTRON_ATTEMPT"]
if attempt in os.environ.get("STRUCK", ""):
    time.sleep(600)
while os.environ.get("GATE") and not (top / os.environ["GATE"]).exists():
    time.sleep(0.05)
(top / f"told-{attempt}-{os.environ['NODE_RANK']}").touch()
while len(list(top.glob(f"told-{attempt}-*"))) < int(os.environ["NNODES"]):
    time.sleep(0.05)
sys.exit(int(os.environ.get("CODE", "0")))
"""
"""All nodes have told before the first ends: the platform ends the others then. Attempts named in STRUCK do not end;
all wait for the file GATE in the job's directory, where one is named."""


@dataclass(frozen=True)
class Site:
    """A lab, and a project with the profiles `one` and `two` (nodes) and a script `train.py`."""

    lab: LeptonLab
    project: Project

    def nemotron(self, *args: str, **environment: str) -> Outcome:
        """`nemotron ARGS` as a process."""
        return process(self.project, *args, **{**self.lab.environment(), **environment})

    def started(self, *args: str, **environment: str) -> subprocess.Popen[str]:
        """`nemotron ARGS` as a process that is not waited for."""
        return start(self.project, *args, **{**self.lab.environment(), **environment})

    def run(self, profile: str, *args: str, mode: str = "--run", **environment: str) -> Outcome:
        """Runs `train.py`. `CODE` and `SECONDS_TO_RUN` among `args` as variables of the job."""
        return self.nemotron("run", "./train.py", mode, profile, *args, **environment)

    def profile(self, text: str) -> None:
        """More profiles."""
        self.project.env_file.write_text(ENV + text, encoding="utf-8")

    def hurry(self) -> None:
        """What this project's processes ask of a platform that fails is soon given up."""
        client = self.project.write("hasty/sitecustomize.py", HASTY_CLIENT).parent
        self.project.extra["PYTHONPATH"] = str(client)

    def folder(self, name: str) -> Path:
        """A job's folder on this machine."""
        return self.project.state / "jobs" / name

    def opened(self, name: str, gate: str = "go") -> None:
        """Makes the file that a job waits for."""
        open_gate(self.lab.volumes["lustre"] / "run" / "jobs" / name, gate)

    def record(self, name: str) -> dict[str, Any]:
        """A job as it is on record, nobody asked."""
        found: dict[str, Any] = json.loads((self.folder(name) / "record.json").read_text(encoding="utf-8"))
        return found

    def state(self, name: str) -> str:
        """Its state, once the platform was asked."""
        self.nemotron("jobs", "status", name)
        return str(self.record(name)["states"][-1]["state"])


def var(**values: object) -> list[str]:
    """Overrides that set variables of the job."""
    return [f"++run.env.env_vars.{name}='{value}'" for name, value in values.items()]


def make_site(lab: LeptonLab, top: Path) -> Site:
    """A new project on the lab."""
    project = make_project(top, ENV)
    project.write("train.py", SCRIPT)
    return Site(lab, project)
