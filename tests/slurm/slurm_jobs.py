"""Plans for Slurm, and a lab's login node as a `Host`: the jobs of these tests are really rendered, sent and run."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from job_scripts import plan_for
from labs.slurm.cluster import SlurmLab
from labs.slurm.process import CLEAN
from labs.slurm.sshd import SshAccess
from waiting import LONG, until

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.slurm.cluster.job import ClusterJob, SlurmJobRef
from nemo_runspec.backends.slurm.cluster.stage import StagedFiles, probe, stage
from nemo_runspec.backends.slurm.cluster.status import query_jobs
from nemo_runspec.backends.slurm.cluster.submit import SlurmSubmission, submit
from nemo_runspec.backends.slurm.executor import job_name, sbatch_script
from nemo_runspec.backends.slurm.render import submit_words
from nemo_runspec.plans.model import Plan
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.records.record import is_over
from nemo_runspec.submission.bundle import read_bundle
from nemo_runspec.submission.layout import own_files
from nemo_runspec.transport.base import Data, Done, Host
from nemo_runspec.transport.ssh import SshHost


class LabHost:
    """This machine with a lab's Slurm: as a login node that nothing stands before.

    Args:
        extra: further variables. `path`: folders that come first in `PATH`.
    """

    name = "lab"
    key = "lab"

    def __init__(self, lab: SlurmLab, path: str = "", **extra: str) -> None:
        python = str(Path(sys.executable).parent)
        words = ":".join(filter(None, (path, python, CLEAN["PATH"])))
        home = {"HOME": str(lab.base / "home" / "root")}
        self.environment = {**CLEAN, **lab.environment(), **home, "PATH": words, **extra}
        self.lab = lab
        self.calls = 0

    def run(self, script: str, *, data: Data = b"", timeout: float = 60.0) -> Done:
        """As `Host.run`."""
        self.calls += 1
        sent = data if isinstance(data, bytes) else b"".join(data)
        done = subprocess.run(
            ["bash", "-c", script], input=sent, capture_output=True, env=self.environment, timeout=timeout
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """As `Host.start`."""
        return subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, env=self.environment)

    def close(self) -> None:
        """Nothing is held."""


class Login(SshHost):
    """A lab's login node over its real sshd, as nemotron reaches it. Use as a context: the connection ends with it.

    Args:
        path: folders that come first in `PATH` there.
        folder: of another one, whose connection is shared.
    """

    def __init__(self, lab: SlurmLab, user: str = "root", path: str = "", folder: Path | None = None) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="nemo-sock-", dir="/tmp"))
        config = self.folder / "config"
        if folder is None:
            config.write_text(_config(lab.ssh.as_user(user)))
        super().__init__("login", config=config, folder=self.folder, linger=0 if folder is None else 60)
        self._path = ":".join(filter(None, (path, str(Path(sys.executable).parent))))

    def __enter__(self) -> Login:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, script: str, *, data: Data = b"", timeout: float = 60.0) -> Done:
        """As `Host.run`."""
        return super().run(f"PATH={self._path}:$PATH\n{script}", data=data, timeout=timeout)


def _config(access: SshAccess) -> str:
    return f"""
    Host login
        HostName {access.host}
        Port {access.port}
        User {access.user}
        IdentityFile {access.identity}
        IdentitiesOnly yes
        UserKnownHostsFile {access.known_hosts}
    """


def slurm_plan(top: Path, script: str, profile: dict[str, Any] | None = None, **values: Any) -> Plan:
    """A plan for Slurm whose recipe is one script. `profile`: its keys; `values`: see `job_scripts.plan_for`."""
    name = f"test-1120-{uuid.uuid4().hex[:8]}"
    plan = plan_for(top, script, name=name, executor="slurm", **values)
    gpus = (profile or {}).get("gpus_per_node", 0)
    plan = dataclasses.replace(plan, resources=dataclasses.replace(plan.resources, gpus_per_node=gpus))
    merged = fields_of("slurm").defaults()
    merged.update(
        {"remote_job_dir": f"{top}/run", "time": "00:05:00", "nodes": plan.resources.nodes, **(profile or {})}
    )
    backend = get_backend("slurm")
    request = TargetRequest(name, "run", "", plan.launch.kind, merged)
    return dataclasses.replace(plan, job_dir=backend.job_dir(merged, name), target=backend.make_target(request))


def cargo_of(plan: Plan, **values: Any) -> StagedFiles:
    """What travels for a plan."""
    rendering = get_backend("slurm").make_rendering(plan)
    assert rendering is not None
    return StagedFiles(own_files(plan, rendering), rendering.programs, read_bundle(plan.bundle), **values)


def put(host: Host, plan: Plan, **values: Any) -> None:
    """Stages a plan."""
    cargo = cargo_of(plan, **values)
    stage(host, plan.job_dir, cargo, probe(host, plan.job_dir, cargo.digest, cargo.programs))


def job_of(plan: Plan, **values: Any) -> SlurmSubmission:
    """What is submitted of a plan."""
    return SlurmSubmission(
        job_name(plan), plan.job_dir, sbatch_script(plan), (*submit_words(plan), sbatch_script(plan)), **values
    )


def start(host: Host, plan: Plan, **values: Any) -> SlurmJobRef:
    """Stages and submits a plan."""
    put(host, plan, **values)
    return SlurmJobRef(submit(host, job_of(plan)).id, plan.job_dir, plan.resources.nodes)


def see(host: Host, job: SlurmJobRef) -> ClusterJob:
    """The job now."""
    return query_jobs(host, [job])[job.id]


def wait(host: Host, job: SlurmJobRef, *states: str, seconds: float = LONG) -> ClusterJob:
    """The job once it is in one of these states; without any, once it is over."""

    def there(seen: ClusterJob) -> bool:
        return seen.state in states if states else is_over(seen.state) and seen.state != "lost"

    return until(lambda: see(host, job), f"{' or '.join(states) or 'the end'} of job {job.id}", there, seconds)


def command(file: Path, script: str) -> None:
    """Makes a command out of a bash script, for a folder that comes first in `PATH`."""
    file.write_text(f"#!/bin/bash\n{script}\n")
    file.chmod(0o755)


_PROGRAMS = ("squeue", "sacct", "sbatch", "scancel", "scontrol", "sinfo", "sacctmgr")


def talking(folder: Path, before: str = "", after: str = "", programs: Sequence[str] = _PROGRAMS) -> str:
    """A folder for `PATH`: Slurm's own programs in wrappers that say more."""
    folder.mkdir()
    for name in programs:
        command(folder / name, f'{before}\n/usr/bin/{name} "$@"\ncode=$?\n{after}\nexit $code')
    return str(folder)


def shim(folder: Path, step: str) -> Path:
    """A folder for `PATH` whose squeue and sbatch are Slurm's own, but stop at a step until `go` is there.

    Args:
        step: `before-squeue`, `after-squeue`, `before-sbatch` or `after-sbatch`; `at-STEP` is there once it is reached.
    """
    folder.mkdir()
    for program in ("squeue", "sbatch"):
        lines = []
        for when in ("before", "after"):
            if f"{when}-{program}" == step:
                lines.append(f"touch {folder}/at-{step}; until [ -e {folder}/go ]; do sleep 0.05; done")
            if when == "before":
                lines.append(f'/usr/bin/{program} "$@"; code=$?')
        command(folder / program, "\n".join([*lines, "exit $code"]))
    return folder


def jobs_called(lab: SlurmLab, name: str) -> list[str]:
    """The ids of all jobs of that name, ended ones too."""
    return lab.run("squeue", "--noheader", "--states=all", f"--name={name}", "--format=%A").stdout.split()


@contextmanager
def configured(lab: SlurmLab, **values: int) -> Iterator[None]:
    """Slurm with other values in its configuration, as long as the context lasts.

    The lab's are short, for faults to be seen soon: `KillWait` may be over before a batch script that stands still on a
    busy machine has said what becomes of its job, `SlurmdTimeout` before a node that was cut off is back.
    """
    file = lab.base / "etc" / "slurm.conf"
    before = after = file.read_text()
    for name, value in values.items():
        after, found = re.subn(rf"^{name}=.*$", f"{name}={value}", after, flags=re.M)
        assert found == 1, name
    _configure(lab, file, after)
    try:
        yield
    finally:
        _configure(lab, file, before)


def _configure(lab: SlurmLab, file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)
    lab.run("scontrol", "reconfigure")


@contextmanager
def closed(lab: SlurmLab, partition: str = "batch") -> Iterator[None]:
    """A partition where no job begins as long as the context lasts, a requeued one neither. What runs goes on."""
    lab.run("scontrol", "update", f"PartitionName={partition}", "State=DOWN")
    try:
        yield
    finally:
        lab.run("scontrol", "update", f"PartitionName={partition}", "State=UP")


def tasks_said(plan: Plan, job: SlurmJobRef, attempt: int = 0) -> str:
    """What the tasks of a job wrote; each of several has a file of its own."""
    name = f"log-{job_name(plan)}_{job.id}_{attempt}"
    files = sorted([*Path(plan.job_dir).glob(f"{name}.out"), *Path(plan.job_dir).glob(f"{name}_*.out")])
    return "".join(file.read_text(encoding="utf-8") for file in files)
