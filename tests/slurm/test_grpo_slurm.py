"""`nemo_rl/grpo` on two nodes of a real Slurm, with a real Ray: the script is told of both, and finds both."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import support
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from nemo_rl_standin import GRPO, NAMED, SCRIPT, nemo_rl, told
from support import Project

pytestmark = [needs_slurm, pytest.mark.full]


FINDS = """\
import ray
ray.init(logging_level="ERROR")
nodes = [node for node in ray.nodes() if node["Alive"]]
total = {key: ray.cluster_resources().get(key) for key in ("GPU", "nrl_tag_ALL", "worker_units")}
print("found " + json.dumps({"nodes": len(nodes), **total}), flush=True)
"""
"""What the stand-in asks of Ray."""

SECONDS = 1800
"""Ray starts a dozen Python processes on each node, a few seconds of a processor's time each."""

LAB = """\
[lab]
executor = "slurm"
partition = "batch"
nodes = 2
gpus_per_node = 2
cpus_per_task = 4
time = "01:00:00"
ray_start_timeout = "30m"
remote_job_dir = "{top}/run"
env_vars = {{ UV_NO_SYNC = "1", UV_PROJECT_ENVIRONMENT = "{prefix}", RAY_ENABLE_UV_RUN_RUNTIME_ENV = "0" }}
"""


def test_the_script_is_told_of_both_nodes_and_finds_them(project: Project, slurm_lab_plain: SlurmLab, tmp_path: Path):
    source = nemo_rl(tmp_path / "nemo-rl", SCRIPT.replace("raise SystemExit", f"{FINDS}raise SystemExit"))
    project.write("env.toml", LAB.format(top=tmp_path, prefix=sys.prefix))
    places = (f"source={source}", f"run.env.workdir={source}", f"run.env.ray_venv={sys.prefix}")
    words = (*GRPO, "--run", "lab", *NAMED, *places, "run.env.container_image=null", "--", "ends_with=3")
    given = {"HF_TOKEN": "hf_of_the_tests", **slurm_lab_plain.environment()}
    out = support.process(project, *words, timeout=SECONDS, **given)
    assert out.code == 3, out.out + out.err
    said = told(out.out)
    assert said["config"]["cluster"] == {"num_nodes": 2, "gpus_per_node": 2}
    assert said["config"]["checkpointing"]["checkpoint_dir"].startswith(f"{tmp_path}/run/outputs/nemo-rl-grpo-")
    assert said["token"] is True
    (found,) = [line.partition("found ")[2] for line in out.out.splitlines() if "found {" in line]
    assert json.loads(found) == {"nodes": 2, "GPU": 4.0, "nrl_tag_ALL": 2.0, "worker_units": 1.0}
    assert "hf_of_the_tests" not in out.out + out.err
