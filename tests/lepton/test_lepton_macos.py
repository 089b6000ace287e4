"""A client that has what macOS has (`macos.py`), from the command line to the end of its jobs on a cloud."""

from __future__ import annotations

from pathlib import Path

from labs.lepton.lab import LeptonLab
from labs.pods import needs_mounts
from lepton_project import make_site
from macos import client_variables

pytestmark = needs_mounts


def test_attached_detached_and_cancelled(lepton_lab: LeptonLab, tmp_path: Path):
    site, macos = make_site(lepton_lab, tmp_path), client_variables(tmp_path / "macos")
    attached = site.run("one", **macos).succeeds()
    assert "of 0 of 1\n" in attached.out
    name = site.run("two", mode="--batch", **macos).succeeds().out.strip()
    site.nemotron("jobs", "wait", name, **macos).succeeds()
    assert "[rank1] " in site.nemotron("jobs", "logs", name, **macos).succeeds().out
    held = site.run("one", "run.env.env_vars.GATE=go", mode="--batch", **macos).succeeds().out.strip()
    site.nemotron("jobs", "cancel", held, **macos).succeeds()
    site.nemotron("jobs", "wait", held, **macos)
    assert site.state(held) == "cancelled"
    assert "Traceback" not in site.nemotron("doctor", "one", **macos).err
