"""The recipe that comes with nemotron, trained in a container; and what its Dockerfile says."""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import support
from lab_docker import needs_docker
from labs.cache import CACHE
from support import REPOSITORY, Project

RECIPE = REPOSITORY / "recipes" / "nano3" / "pretrain"


@pytest.fixture(scope="session")
def packages() -> Path:
    """A folder with the recipe's dependencies for the lab image's Python; made once, kept in the tests' cache."""
    script = RECIPE / "train.py"
    header = script.read_text(encoding="utf-8").partition("# [tool.runspec]")[0]
    made = CACHE / f"container-packages-{hashlib.sha256(header.encode()).hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "container-packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "done").exists():
            uv = Path(sys.executable).with_name("uv")
            words = ["pip", "install", "--quiet", "--python-version=3.11", f"--target={made}", "--requirements"]
            subprocess.run([uv, *words, script], check=True)
            (made / "done").touch()
    return made


@needs_docker
def test_the_tiny_recipe_trains_in_a_container(packages, box: Project):
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
