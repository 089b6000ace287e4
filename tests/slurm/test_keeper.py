"""Secrets of jobs that never run: they go by themselves from a cluster, whoever ends the job, and whoever is away."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, Login, command, put, slurm_plan, start
from waiting import until

from nemo_runspec.backends.slurm.cluster import stage
from nemo_runspec.plans.model import Plan

pytestmark = needs_slurm


@pytest.fixture
def lab(slurm_lab_plain: SlurmLab, monkeypatch: pytest.MonkeyPatch) -> SlurmLab:
    """Keepers that look five times a second, and ask Slurm every second time."""
    monkeypatch.setattr(stage, "_PAUSE", 0.2)
    monkeypatch.setattr(stage, "_ROUNDS", 2)
    return slurm_lab_plain


@pytest.fixture
def no_node(lab: SlurmLab) -> Iterator[SlurmLab]:
    """A lab whose jobs wait."""
    subprocess.run(
        ["scontrol", "update", "partitionname=batch", "state=down"], env=LabHost(lab).environment, check=True
    )
    yield lab
    subprocess.run(["scontrol", "update", "partitionname=batch", "state=up"], env=LabHost(lab).environment, check=True)


def secrets_of(plan: Plan) -> Path:
    return Path(plan.job_dir) / "secrets.env"


def keepers(plan: Plan) -> list[int]:
    """The processes that look after this folder of jobs."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            leads = os.getsid(int(path.name)) == int(path.name)  # else it is a question that one of them asks
        except OSError:
            continue
        if leads and b"nemotron-secrets" in words and os.fsencode(str(Path(plan.job_dir).parent)) in words:
            found.append(int(path.name))
    return found


def looked(queue: Path, times: int) -> None:
    """Waits until Slurm has been asked so many times more."""
    before = queue.read_text().count("\n") if queue.exists() else 0
    until(lambda: queue.exists() and queue.read_text().count("\n") >= before + times, f"{times} questions")


@pytest.fixture
def watched(lab: SlurmLab, tmp_path: Path) -> tuple[str, Path]:
    """A folder with a squeue that notes each question of a keeper; the notes."""
    folder, notes = tmp_path / "bin", tmp_path / "asked"
    folder.mkdir()
    real = subprocess.run(["which", "squeue"], capture_output=True, text=True, env=LabHost(lab).environment, check=True)
    command(
        folder / "squeue",
        f"case $* in *'|%F|%j|'*) echo asked >> {notes} ;; esac\n"
        f'[ ! -e {tmp_path}/silent ] || exit 1\nexec {real.stdout.strip()} "$@"',
    )
    return str(folder), notes


def test_a_job_that_somebody_else_cancels_while_it_waits(no_node: SlurmLab, tmp_path: Path, watched):
    """nemotron is gone, and its connection too; scancel is all that happens."""
    folder, notes = watched
    plan = slurm_plan(tmp_path, "print('never')")
    with Login(no_node, path=folder) as login:
        job = start(login, plan, secrets={"HF_TOKEN": "s3cret-value"})
    assert len(keepers(plan)) == 1
    looked(notes, 4)
    assert secrets_of(plan).exists()
    subprocess.run(["scancel", job.id], env=LabHost(no_node).environment, check=True)
    until(lambda: not secrets_of(plan).exists(), "its removal")
    until(lambda: not keepers(plan), "the keeper's end")


def test_a_silent_slurm_says_nothing(no_node: SlurmLab, tmp_path: Path, watched):
    folder, notes = watched
    plan = slurm_plan(tmp_path, "print('never')")
    host = LabHost(no_node, path=folder)
    job = start(host, plan, secrets={"HF_TOKEN": "s3cret-value"})
    (tmp_path / "silent").touch()
    looked(notes, 4)
    subprocess.run(["scancel", job.id], env=LabHost(no_node).environment, check=True)
    looked(notes, 4)
    assert secrets_of(plan).exists()
    (tmp_path / "silent").unlink()
    until(lambda: not secrets_of(plan).exists(), "its removal")


def test_a_job_without_an_id_has_a_day(lab: SlurmLab, tmp_path: Path, watched):
    """Sent and never submitted; one keeper is enough for all."""
    folder, notes = watched
    host = LabHost(lab, path=folder)
    new, old = (slurm_plan(tmp_path, "") for _ in range(2))
    for plan in (new, old):
        put(host, plan, secrets={"HF_TOKEN": "s3cret-value"})
    os.utime(secrets_of(old), (1_000_000_000, 1_000_000_000))
    until(lambda: not secrets_of(old).exists(), "its removal")
    looked(notes, 3)
    assert secrets_of(new).exists()
    assert len(keepers(new)) == 1
    secrets_of(new).unlink()
    until(lambda: not keepers(new), "the keeper's end")


def test_the_secrets_of_a_job_that_runs_stay(lab: SlurmLab, tmp_path: Path, watched):
    """A job that is put back reads them again: they are its own until it is over."""
    folder, notes = watched
    go = tmp_path / "go"
    plan = slurm_plan(tmp_path, f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.1)")
    job = start(LabHost(lab, path=folder), plan, secrets={"HF_TOKEN": "s3cret-value"})
    lab.wait_for(job.id, "RUNNING")
    looked(notes, 4)
    assert secrets_of(plan).exists()
    go.touch()
    until(lambda: not secrets_of(plan).exists(), "its own removal")
    until(lambda: not keepers(plan), "the keeper's end")


def test_a_job_without_secrets_needs_no_keeper(lab: SlurmLab, tmp_path: Path):
    plan = slurm_plan(tmp_path, "")
    put(LabHost(lab), plan)
    assert keepers(plan) == []


def test_secrets_of_the_tasks_of_an_array(lab: SlurmLab, tmp_path: Path):
    plan = slurm_plan(tmp_path, "")
    files = {"members/0/secrets.env": {"HF_TOKEN": "s3cret-value"}}
    put(LabHost(lab), plan, secret_files=files)
    (Path(plan.job_dir) / ".slurm_id").write_text("999999\n")
    until(lambda: not (Path(plan.job_dir) / "members/0/secrets.env").exists(), "its removal")
