"""What the pages about clouds tell people to type works as it stands there, with the profile of the page."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from cloud_projects import group_of
from labs.pods import needs_mounts
from lepton_project import Site, make_site, var

pytestmark = needs_mounts

DOCS = Path(__file__).resolve().parents[2] / "docs"
CLOUDS, LEPTON = ((DOCS / name).read_text(encoding="utf-8") for name in ("clouds.md", "lepton.md"))
KEYS = {"NGC_KEY": "nvapi-" + "k3y" * 9}
RECIPE = "nano3 pretrain -c tiny"
"""Stands for any recipe on the pages; here it is a script that takes no minutes."""


def fenced(page: str, language: str) -> str:
    """The first block of this language."""
    found = re.search(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def typed(page: str) -> list[str]:
    """All commands that stand in its block and in its lines; `a | b` are two."""
    lines = [line.split("  #")[0].strip() for line in fenced(page, "sh").splitlines()] if "```sh" in page else []
    for words in re.findall(r"`(nemotron [^`]+)`", page):
        first, *others = words.split(" | ")
        before = first.rsplit(" ", 1)[0]
        lines += [first, *(f"{before} {other}" for other in others)]
    return list(dict.fromkeys(lines))


@pytest.fixture
def site(lepton_lab, tmp_path) -> Site:
    """The page's profile as it stands there, in a workspace that has what it names."""
    lepton_lab.world.groups[0].name = "my-h100-pool"
    found = make_site(lepton_lab, tmp_path)
    found.project.env_file.write_text(fenced(LEPTON, "toml"), encoding="utf-8")
    return found


def job_for(site: Site, command: str) -> str:
    """A job such as the command is about: one that has ended, or one that runs."""
    seconds = 600 if command.split()[2] in ("stop", "cancel") else 0
    site.run("lepton", *var(SECONDS_TO_RUN=seconds), mode="--batch", **KEYS).succeeds()
    name = site.lab.jobs[-1].name
    if not seconds:
        site.nemotron("jobs", "wait", name).succeeds()
    return name


def sweep(site: Site) -> str:
    """One whose runs have failed, for a reason that is gone."""
    site.project.write("train.py", "import os, sys\nsys.exit(0 if os.path.exists('/mnt/lustre/mended') else 3)\n")
    told = site.nemotron("run", "./train.py", "-m", "--run", "lepton", "++run.env.env_vars.N='1','2'", **KEYS)
    assert told.code == 3, told.err
    (site.lab.volumes["lustre"] / "lustre/fsw/me/mended").touch()
    return group_of(site)


def test_the_pages_have_commands():
    assert len(typed(CLOUDS)) > 10 and len(typed(LEPTON)) > 5


def test_commands_of_the_page_about_clouds(site):
    site.run("lepton", "--dry-run", "--out", "plan.json").succeeds()
    for command in typed(CLOUDS):
        words = command.replace(RECIPE, "run ./train.py")
        if "JOB" in words:
            words = words.replace("JOB", job_for(site, command))
        if "SWEEP" in words:
            words = words.replace("SWEEP", sweep(site))
        told = site.nemotron(*shlex.split(words)[1:], **KEYS)
        assert told.code == 0, f"$ {words}\n{told.out}\n{told.err}"


def test_commands_of_the_page_about_lepton(site):
    for command in typed(LEPTON):
        told = site.nemotron(*shlex.split(command.replace("VOLUME", "lustre"))[1:], **KEYS)
        assert told.code == 0, f"$ {command}\n{told.out}\n{told.err}"
