"""`nemotron init` asks run:ai for projects and volume claims, and what it writes runs there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from labs.runai import RunaiLab
from support import Project, process


@pytest.fixture
def site(runai_lab: RunaiLab, project: Project) -> Project:
    """A project without profiles, with the application's secret in the environment."""
    project.env_file.unlink()
    return replace(project, extra={**project.extra, "DGX_CLIENT_SECRET": runai_lab.client_secret})


def test_what_it_writes_runs(site, runai_lab):
    where = ["--base-url", runai_lab.base_url, "--client-id", runai_lab.client_id, "--pvc", "data"]
    where += ["--project-name", runai_lab.project, "--profile", "cloud", "--kube-apiserver-url", runai_lab.kube_url]
    process(site, "init", "--executor", "dgxcloud", "-y", *where, "--recipe", "demo/train").succeeds()
    text = site.env_file.read_text()
    assert f'project_name = "{runai_lab.project}"' in text
    assert "client_secret = \"${oc.env:DGX_CLIENT_SECRET,''}\"" in text
    assert runai_lab.client_secret not in text
    assert ", all right\n" in process(site, "env", "check").succeeds().out
    assert "y = 2.5" in process(site, "demo", "train", "-c", "tiny", "--run", "cloud").succeeds().out
