"""What the tests of Ray jobs share: scripts of jobs, and what is left of a cluster."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from labs.cache import CACHE
from waiting import LONG, until

from nemo_runspec.jobside.processes import environment_of, words_of
from nemo_runspec.jobside.ray_processes import MARK
from nemo_runspec.plans.model import Plan, RayCluster

RAY_BIN = Path(sys.executable).parent
"""The tests' own Python has Ray: a client of Lepton's needs it."""

PATIENCE = 3 * LONG
"""Seconds. Ray starts a dozen Python processes on each node, a few seconds of a processor's time each."""


RAY = "2.60.0"


def ray_env(version: str = RAY) -> Path:
    """A virtual environment with a Ray, of the system's own Python, which the labs' images have too; made once."""
    made = CACHE / f"ray-{version}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with Path(f"{made}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "whole").exists():
            shutil.rmtree(made, ignore_errors=True)
            environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
            for words in (
                ("venv", "--python", "/usr/bin/python3", str(made)),
                ("pip", "install", "--python", str(made), f"ray=={version}"),
            ):
                done = subprocess.run(["uv", *words, "--quiet"], env=environment, capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
            (made / "whole").touch()
    return made


LOSES = """
import os, ray, signal, sys, time

ray.init(logging_level="ERROR")

@ray.remote(resources={"worker_units": 1}, max_retries=0)
def ends_its_node():
    os.kill(os.getppid(), signal.SIGKILL)

try:
    ray.get(ends_its_node.remote())
except ray.exceptions.RayError as error:
    print("lost", type(error).__name__, flush=True)
time.sleep(float(os.environ.get("GOES_ON_AFTER", "600")))
while len([node for node in ray.nodes() if node["Alive"]]) > 1:
    time.sleep(0.2)
print("went on", flush=True)
sys.exit(5)
"""
"""Kills the raylet of another node; then it goes on without that."""


def with_ray(plan: Plan, **values: object) -> Plan:
    """A plan with a cluster of these values; its nodes have so long to start as a test waits."""
    return dataclasses.replace(plan, ray=RayCluster(**{"start_timeout": int(PATIENCE), **values}))  # type: ignore[arg-type]


def left_of(job: str) -> list[str]:
    """The processes of a job's clusters that live on this machine, as their words."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    found = [pid for pid in pids if environment_of(pid).get(MARK, "").startswith(f"{job}-")]
    return [" ".join(words_of(pid)) for pid in found]


def wait_until_gone(job: str) -> None:
    """Waits until no process of a job's clusters is left."""
    until(lambda: not left_of(job), f"the end of {left_of(job)}")
