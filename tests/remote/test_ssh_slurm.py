"""`jobs ssh` into a job on a cluster, over SSH: into its container, on either node, on a terminal and without one."""

from __future__ import annotations

import pytest
from labs.slurm.fixtures import needs_slurm
from slurm_project import Cluster
from terminals import in_terminal

pytestmark = [needs_slurm, pytest.mark.slow]

HELD = """
    import os, time
    print("ready", flush=True)
    while not os.path.exists(os.environ["NEMOTRON_JOB_DIR"] + "/go"):
        time.sleep(0.05)
"""
LOOK = 'cat /etc/lab-release; echo "$NEMOTRON_NODE_RANK $MADE $PWD"; tty > /dev/null && echo on a terminal; exit 6'


def test_in_the_container_of_a_job(cluster: Cluster) -> None:
    image = cluster.lab.image("ssh", {"/etc/lab-release": "made for tests\n"})
    more = f'container_image = "{image}"\nstartup_commands = ["export MADE=here", "cd /dev"]\n'
    with (cluster.project.folder / "env.toml").open("a") as profiles:
        profiles.write(more)
    name = cluster.batch(HELD, profile="pair")
    cluster.log_has(name, "[rank1] ready")
    for node, rank in (("n2", 1), ("1", 1), (None, 0)):
        words = ("jobs", "ssh", name, *(("--node", node) if node else ()), "--", "bash", "-c", LOOK)
        done = cluster.nemotron(*words)
        assert (done.code, done.out) == (6, f"made for tests\n{rank} here /dev\n"), done.err
    said, code = in_terminal(cluster.project, "jobs", "ssh", name, "--", "bash", "-c", LOOK)
    assert (code, "on a terminal" in said) == (6, True), said
    cluster.nemotron("jobs", "ssh", name, "--node", "n4").refuses("has no node 'n4'", "name one of its nodes: n[1-2]")
    (cluster.remote(name) / "go").touch()
    assert cluster.nemotron("jobs", "wait", name).code == 0
