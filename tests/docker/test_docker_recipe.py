"""The recipe that comes with nemotron, trained in a container; and what its Dockerfile says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import support
from lab_docker import needs_docker
from labs.recipe_packages import recipe_packages
from support import REPOSITORY, Project

RECIPE = REPOSITORY / "recipes" / "nano3" / "pretrain"


@pytest.fixture(scope="session")
def packages() -> Path:
    """A folder with the recipe's dependencies for the lab image's Python."""
    return recipe_packages()


@needs_docker
@pytest.mark.full
def test_the_tiny_recipe_trains_in_a_container(packages, box: Project):
    """With data made before; where it is made first, `remote/test_first_command_here.py` trains in a container too."""
    lines = [f'mounts = ["{packages}:/packages:ro"]', 'env_vars = { PYTHONPATH = "/packages" }']
    box.write("env.toml", box.env_file.read_text() + "\n".join(lines) + "\n")
    words = ("nano3", "data", "prep", "pretrain", "-c", "tiny", "--run", "box")
    support.process(box, *words, timeout=600).succeeds()
    words = (
        "nano3",
        "pretrain",
        "-c",
        "tiny",
        "--run",
        "box",
        "train.train_iters=4",
        "train.require_below_unigram=false",
    )
    out = support.process(box, *words, timeout=600).succeeds()
    (job,) = (box.state / "jobs").glob("nano3-pretrain-*")
    last = json.loads((job / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 4, out.out
    assert list((box.state / "run").rglob("loss.png"))


def test_the_dockerfile_installs_what_the_header_declares():
    text = (RECIPE / "Dockerfile").read_text(encoding="utf-8")
    assert "ARG BASE=python:3.11-slim\nFROM ${BASE}\n" in text
    assert "COPY train.py /tmp/requirements/train.py\n" in text
    assert "--requirements /tmp/requirements/train.py" in text
