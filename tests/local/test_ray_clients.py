"""Real Rays as commands start them: two clusters with fixed ports at once, and a client that is killed with `-9`."""

from __future__ import annotations

import json

import pytest
import support
from ray_jobs import PATIENCE, ray_env, wait_until_gone
from support import Project
from waiting import line_of, until

from nemo_runspec.jobside.address import free_ports

pytestmark = pytest.mark.full

WAITS = """\
# /// script
# dependencies = []
# [tool.runspec]
# schema = "1"
# [tool.runspec.run]
# launch = "ray"
# ///
import os, ray, sys, time
ray.init(logging_level="ERROR")
print("serves", os.environ["RAY_ADDRESS"].rpartition(":")[2], flush=True)
time.sleep(3600 if sys.argv[1:] == ["on"] else 0)
"""


def test_two_clusters_with_ports_and_a_client_that_is_killed(project: Project):
    """The second is refused by its `ray_port` before its Ray starts, and runs beside the first by another one."""
    one, other = free_ports(2)
    setup = f'startup_commands = ["export PATH={ray_env()}/bin:$PATH"]'
    profiles = [
        f'[{name}]\nexecutor = "local"\n{setup}\nray_port = {port}\n' for name, port in (("one", one), ("other", other))
    ]
    project.write("env.toml", "\n".join(profiles))
    project.write("job.py", WAITS)
    client = support.start(project, "run", "./job.py", "--run", "one", "--", "on", cold=True)
    try:
        said = until(lambda: line_of(client.stdout, PATIENCE), "its Ray", lambda line: not line or "serves" in line)
        assert said == f"serves {one}\n"
        name = str(support.process(project, "jobs", "list", "--json").succeeds().json[0]["name"])
        refused = support.process(project, "run", "./job.py", "--run", "one", timeout=PATIENCE)
        assert refused.code == 1 and "serves" not in refused.out
        assert f"ray_port = {one} is taken on node 0" in refused.err and "a free one" in refused.err, refused.err
        beside = support.process(project, "run", "./job.py", "--run", "other", timeout=PATIENCE)
        assert (beside.code, f"serves {other}\n" in beside.out) == (0, True), beside.err
        before = json.loads(support.process(project, "jobs", "show", name, "--json").out)
        assert before["state"] == "running"
    finally:
        client.kill()
        client.communicate()
    wait_until_gone(name)
    assert support.process(project, "jobs", "wait", name).code
    ended = json.loads(support.process(project, "jobs", "show", name, "--json").out)
    assert ended["state"] == "lost" and ended["exit_code"], ended
    assert "nemotron itself was killed, and the job was stopped with it" in ended["states"][-1]["reason"]
