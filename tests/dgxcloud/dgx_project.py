"""A project whose jobs run on the run:ai lab, used from the outside: `nemotron` as processes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labs.runai.model import Workload
from labs.runai.server import RunaiLab
from runai_workloads import profile
from support import Outcome, Project, finish, start
from waiting import LONG, until


@dataclass(frozen=True)
class Site:
    """A lab, and a project with the profile `dgx`."""

    lab: RunaiLab
    project: Project
    children: list[subprocess.Popen[str]] = field(default_factory=list)

    def nemotron(self, *args: str, **environment: str) -> Outcome:
        """`nemotron ARGS` as a process."""
        return self.end_of(self._start(*args, **environment))

    def run(self, *args: str, mode: str = "--run", **environment: str) -> Outcome:
        """Runs `train.py`."""
        return self.nemotron("run", "./train.py", mode, "dgx", *args, **environment)

    def started(self, *args: str) -> subprocess.Popen[str]:
        """Runs `train.py` attached, and does not wait for it."""
        return self._start("run", "./train.py", "--run", "dgx", *args)

    def end_of(self, child: subprocess.Popen[str]) -> Outcome:
        """How a process ends."""
        return finish(child)

    def close(self) -> None:
        """Ends what a test that failed has left behind."""
        for child in self.children:
            if child.poll() is None:
                child.kill()
                child.communicate()

    def _start(self, *args: str, **environment: str) -> subprocess.Popen[str]:
        self.children.append(start(self.project, *args, **environment))
        return self.children[-1]

    def profile(self, more: str = "", *, kube: bool = True, here: bool = False) -> None:
        """Writes the profile anew. `here`: this machine sees the claim."""
        run_dir = self.lab.claims["data"] / "nemo_run"
        if here:
            run_dir.mkdir(exist_ok=True)
        profile(self.project, self.lab, more + (f'\nrun_dir_here = "{run_dir}"' if here else ""), kube=kube)

    def opened(self, name: str = "go") -> None:
        """Makes a file on the claim that a job waits for."""
        (self.lab.claims["data"] / name).touch()

    def writes(self, text: str) -> Workload:
        """The only workload, once it has written this."""
        until(lambda: any(text in written(job) for job in self.lab.jobs), text)
        [job] = self.lab.jobs
        return job

    def record(self, name: str) -> dict[str, Any]:
        """A job as it is on record, nobody asked."""
        file = self.project.state / "jobs" / name / "record.json"
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found

    def state(self, name: str) -> str:
        """Its state on record."""
        return str(self.record(name)["states"][-1]["state"])

    def shown(self, name: str) -> str:
        """Its log as far as this machine has it."""
        file: Path = self.project.state / "jobs" / name / "logs" / "job.log"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def ended(self, state: str, code: int | None) -> Workload:
        """The only workload, which is over everywhere, and on record as it ended."""
        [job] = self.lab.jobs
        assert job.over.wait(LONG), self.lab.diagnose()
        record = self.record(job.name)
        assert (record["states"][-1]["state"], record["exit_code"]) == (state, code)
        assert self.lab.pods.running == []
        return job

    def verdict(self, name: str) -> dict[str, Any]:
        """What `jobs diagnose` says."""
        found: dict[str, Any] = self.nemotron("jobs", "diagnose", name, "--json").succeeds().json
        return found


def written(job: Workload) -> str:
    """All that its pods have written, those that are gone first."""
    pods = [pod.process for pod in (*job.removed, *job.pods) if pod.process]
    return "".join(pod.text for pod in pods)


def var(**values: object) -> list[str]:
    """Overrides that set variables of the job."""
    return [f"++run.env.env_vars.{name}='{value}'" for name, value in values.items()]


@contextmanager
def make_site(lab: RunaiLab, project: Project, script: str) -> Iterator[Site]:
    """The profile `dgx`, and a script `train.py`."""
    found = Site(lab, project)
    lab.timing.grace = lab.timing.clean = 0.3
    found.profile()
    project.write("train.py", script)
    try:
        yield found
    finally:
        found.close()
