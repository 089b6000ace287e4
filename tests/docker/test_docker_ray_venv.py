"""`ray_venv` in a container: the cluster's Ray is that of a virtual environment there, and no other is on `PATH`."""

from __future__ import annotations

import pytest
import support
from lab_docker import BASE, needs_docker
from ray_jobs import PATIENCE, RAY, ray_env
from support import Project

pytestmark = [needs_docker, pytest.mark.full]

VENV = "/opt/nemo_rl_venv"
PROFILE = f"""\
[venv]
executor = "docker"
container_image = "{BASE}"
mounts = ["{{made}}:{VENV}:ro"]
ray_venv = "{VENV}"
run_command = "{VENV}/bin/python {{script}}"

[without]
extends = "venv"
ray_venv = ""
"""
JOB = """\
# /// script
# dependencies = []
# [tool.runspec]
# schema = "1"
# [tool.runspec.run]
# launch = "ray"
# ///
import ray, sys
ray.init(logging_level="ERROR")
print("command of", sys.prefix, "task of", *ray.get(ray.remote(lambda: (sys.prefix, ray.__version__)).remote()))
raise SystemExit(7)
"""


def test_the_ray_of_a_virtual_environment_in_the_container(box: Project):
    box.write("env.toml", PROFILE.replace("{made}", str(ray_env())))
    box.write("job.py", JOB)
    done = support.process(box, "run", "./job.py", "--run", "venv", timeout=PATIENCE)
    assert (done.code, f"command of {VENV} task of {VENV} {RAY}" in done.out) == (7, True), done.out + done.err
    without = support.process(box, "run", "./job.py", "--run", "without", timeout=PATIENCE)
    assert without.code == 1 and "command of" not in without.out, without.out
    assert "Ray: /usr/bin/python on node 0 has no Ray" in without.err, without.err
