"""`nano3 data prep pretrain` on two nodes of a real Slurm: both of them work, and the bytes stay the same."""

from __future__ import annotations

import json
import re

import pytest
from first_command import IMAGE
from labs.recipe_packages import recipe_packages
from labs.slurm.fixtures import needs_slurm
from ray_jobs import wait_until_gone
from recipes.prepared_inputs import REFERENCE, digests

pytestmark = [needs_slurm, pytest.mark.full]

BOTH = """
[both]
extends = "there"
remote_job_dir = "{top}/run"
startup_commands = []
mounts = ["{top}:{top}", "{packages}:/packages:ro"]
nodes = 2
cpus_per_task = 2
ray_start_timeout = "30m"
env_vars = {{ PYTHONPATH = "/packages", HF_HUB_OFFLINE = "1" }}
"""


def test_two_nodes_make_the_same_bytes(cluster, tmp_path):
    """Two tasks run on a node at a time; each has its share of what takes longer than workers to start."""
    if not (cluster.lab.base / "registry" / re.sub("[/:#]", "+", IMAGE)).exists():
        cluster.lab.image(IMAGE)
    with (cluster.project.folder / "env.toml").open("a") as profiles:
        profiles.write(BOTH.format(top=tmp_path, packages=recipe_packages()))
    words = ("run.env.nodes=2", "+shard_bytes=4000")
    done = cluster.nemotron("nano3", "data", "prep", "pretrain", "-c", "tiny", "--run", "both", *words)
    assert done.code == 0, done.out + done.err
    assert "nemotron: Ray 2.60.0: 2 nodes with 4 CPU" in done.out + done.err, done.out + done.err
    (made,) = {file.parent.resolve() for file in (tmp_path / "run").rglob("tiny_train.bin")}
    assert digests(made, "tiny") == json.loads(REFERENCE.read_text())["tiny"]
    wait_until_gone(cluster.newest())
    line = json.dumps({"text": "What the sea gives, the wind takes; " * 30}) + "\n"
    (tmp_path / "more.jsonl").write_text("".join(line.replace("sea", f"sea {number}") for number in range(20_000)))
    words = ("run.env.nodes=2", "+shard_bytes=500000", f"datasets=[{{name: more, paths: ['{tmp_path}/more.jsonl']}}]")
    done = cluster.nemotron("nano3", "data", "prep", "pretrain", "-c", "tiny", "--run", "both", *words)
    assert done.code == 0, done.out + done.err
    shares = re.search(r"shards by node: n(\d) (\d+), n(\d) (\d+)", done.out)
    assert shares and min(int(shares[2]), int(shares[4])) >= 8, done.out + done.err
    wait_until_gone(cluster.newest())
