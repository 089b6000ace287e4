"""`nemotron init` asks a real Slurm over a real SSH, and what it writes runs there."""

from __future__ import annotations

import os
import shutil

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from support import Project, call
from test_doctor_slurm import reach

from nemo_runspec.transport.connect import close_all

pytestmark = needs_slurm


@pytest.fixture
def host(slurm_lab: SlurmLab, project: Project, monkeypatch: pytest.MonkeyPatch):
    """The login node, as ssh knows it; a project without profiles."""
    project.env_file.unlink()
    reach(project.folder, slurm_lab.ssh, monkeypatch)
    shutil.rmtree(slurm_lab.base / "home" / "root" / ".nemotron", ignore_errors=True)
    yield f"lab-{project.folder.parent.name}"
    close_all()


def test_what_it_finds_out_runs(host, project, slurm_lab):
    told = call("init", "--executor", "slurm", "--host", host, "-y", "--profile", "hpc", "--recipe", "demo/train")
    assert f"{host} answers: " in told.succeeds().err
    text = project.env_file.read_text()
    for line in ('account = "acme"', 'partition = "batch"', "gpus_per_node = 8", 'tunnel = "ssh"', f'host = "{host}"'):
        assert f"\n{line}\n" in text
    assert ", all right\n" in call("env", "check").succeeds().out
    assert "ok   shape" in call("doctor", "hpc").succeeds().out
    ended = call("demo", "train", "-c", "tiny", "--run", "hpc").succeeds()
    assert "y = 2.5" in ended.out


def test_a_partition_there_is_not(host, project):
    words = ["--executor", "slurm", "--host", host, "-y", "--partition", "bacth"]
    call("init", *words).refuses("--partition bacth: did you mean 'batch'?")
    assert not project.env_file.exists()


def test_a_cluster_without_accounts(project, slurm_lab_plain, monkeypatch):
    project.env_file.unlink()
    reach(project.folder, slurm_lab_plain.ssh, monkeypatch)
    try:
        told = call("init", "--executor", "slurm", "--host", "lab-plain", "-y").succeeds()
        assert "lab-plain answers: 4 partitions\n" in told.err
        assert "account" not in project.env_file.read_text()
        assert "ok   shape" in call("doctor", "lab-plain").succeeds().out
    finally:
        close_all()


def test_what_is_open_is_named_with_what_was_found(host, project):
    told = call("init", "--executor", "slurm", "--host", host)
    told.refuses("--account: Account: acme, root; -y takes acme", "--partition: Partition: batch, ", "-y takes batch")
    assert not project.env_file.exists()


def test_a_host_that_is_not_there(project, monkeypatch):
    project.env_file.unlink()
    monkeypatch.setenv("PATH", os.environ["PATH"])
    words = ["--executor", "slurm", "--host", "me@127.0.0.1", "--port", "9", "--account", "a", "--partition", "p", "-y"]
    told = call("init", *words).succeeds()
    assert "not asked: " in told.err
    assert '\nhost = "127.0.0.1"\nuser = "me"\nport = 9\n' in project.env_file.read_text()
