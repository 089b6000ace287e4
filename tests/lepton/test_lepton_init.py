"""`nemotron init` asks a workspace, and what it writes runs there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from labs.lepton.lab import LeptonLab
from support import Project, process


@pytest.fixture
def site(lepton_lab: LeptonLab, project: Project) -> Project:
    """A project without profiles, logged in."""
    project.env_file.unlink()
    return replace(project, extra={**project.extra, **lepton_lab.environment()})


def test_what_it_finds_out(site):
    told = process(site, "init", "--executor", "lepton", "-y", "--node-group", "h100-pool").succeeds()
    assert "node groups" in told.err
    text = site.env_file.read_text()
    for line in (
        'node_group = "h100-pool"',
        'resource_shape = "gpu.8xh100-sxm"',
        'nemo_run_dir = "/mnt/lustre/nemotron"',
    ):
        assert f"\n{line}\n" in text
    assert ", all right\n" in process(site, "env", "check").succeeds().out
    process(site, "init", "--executor", "lepton").refuses("--node-group: Node group: h100-pool, a100-pool")


def test_without_a_login(project):
    project.env_file.unlink()
    words = [
        "--node-group",
        "g",
        "--resource-shape",
        "cpu.large",
        "--volume",
        "node-nfs:v",
        "--nemo-run-dir",
        "/mnt/v/run",
    ]
    told = process(project, "init", "--executor", "lepton", "-y", *words).succeeds()
    assert "Lepton was not asked: no Lepton workspace is named" in told.err
    assert 'mounts = [{ path = "/", mount_path = "/mnt/v", from = "node-nfs:v" }]' in project.env_file.read_text()


@pytest.mark.slow
def test_what_it_writes_runs(site):
    words = ["--executor", "lepton", "-y", "--node-group", "h100-pool", "--recipe", "demo/train", "--profile", "cloud"]
    process(site, "init", *words).succeeds()
    assert '\n# image = "python:3.12-slim"\n' in (site.folder / "recipes/demo/train/train.py").read_text()
    assert "y = 2.5" in process(site, "demo", "train", "-c", "tiny", "--run", "cloud").succeeds().out
