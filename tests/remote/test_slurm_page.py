"""The example of docs/slurm.md as it stands: account, login node, user, key, image and /lustre alone are the lab's."""

from __future__ import annotations

import re
import shlex

import pytest
from labs.recipe_packages import linked, recipe_packages
from labs.slurm.fixtures import needs_slurm
from slurm_project import Cluster
from support import REPOSITORY, make_repository

PAGE = (REPOSITORY / "docs" / "slurm.md").read_text(encoding="utf-8")
PROFILE = next(body for body in re.findall(r"^```toml\n(.*?)^```", PAGE, re.M | re.S))
COMMANDS = next(body for body in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)).splitlines()
IMAGE = "nvcr.io/nvidia/nemo:25.11"
HAS = {"PYTHONPATH": "/lustre/packages", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "-1"}
"""What the image sets: where the packages are, and that the lab's nodes have none of the page's GPUs."""
SHORT = ("train.train_iters=2", "train.require_below_unigram=false")


@pytest.fixture
def commands(cluster: Cluster) -> list[list[str]]:
    """The words of the page's commands, in a project with its profile."""
    lustre = cluster.project.home / "lustre"
    lustre.mkdir()
    linked(recipe_packages(), lustre / "packages")
    cluster.lab.image(IMAGE, environment=HAS)
    own = {
        '"my-account"': '"acme"', '"login.cluster.example.com"': '"lab"', '"me"': '"root"',
        '"~/.ssh/id_ed25519"': f'"{cluster.lab.ssh.identity}"', '"/lustre:/lustre"': f'"{lustre}:/lustre"',
    }  # fmt: skip
    text = PROFILE
    for before, after in own.items():
        assert before in text, before
        text = text.replace(before, after)
    cluster.project.write("env.toml", text)
    make_repository(cluster.project.folder)
    return [shlex.split(line, comments=True)[1:] for line in COMMANDS]


def pretrainings(commands: list[list[str]]) -> list[list[str]]:
    """The dry runs, as a page and as a script; the attached run; the detached one."""
    found = [words for words in commands if words[:2] == ["nano3", "pretrain"]]
    assert len(found) == 4
    return found


@needs_slurm
def test_the_example_runs(cluster: Cluster, commands: list[list[str]]):
    dry, script, _, detached = pretrainings(commands)
    for words in (dry, script):
        assert "#SBATCH --nodes=2" in cluster.nemotron(*words).succeeds().out
    done = cluster.nemotron(*detached, *SHORT).succeeds()
    assert "nano3/data/prep/pretrain runs first" in done.err
    name = done.out.strip()
    assert cluster.until(name, lambda record: record["over"])["state"] == "succeeded"
    assert "2 process(es)" in "\n".join(cluster.logs(name)), "one on each of two nodes, as tiny.yaml has it"
    assert ["jobs", "status"] in commands


@needs_slurm
@pytest.mark.full
def test_the_example_is_waited_for(cluster: Cluster, commands: list[list[str]]):
    """As the first command is on the specification's profile, see `first_command`."""
    done = cluster.nemotron(*pretrainings(commands)[2], *SHORT)
    assert done.code == 0, done.out[-3000:] + done.err[-3000:]
    assert "2 process(es)" in done.out
