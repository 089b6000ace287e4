"""Ray on one node, really run: two clusters side by side, and what is left when they end, are stopped or killed."""

from __future__ import annotations

import json
import signal
import subprocess
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from job_scripts import kill, lay_out, plan_for, start_script
from ray_jobs import PATIENCE, left_of, wait_until_gone, with_ray
from waiting import line_of, until

from nemo_runspec.plans.model import Plan, SecretRef

pytestmark = pytest.mark.slow

WAITS = """
import json, os, ray, signal, sys, time

def told(number, frame):
    print("told", number, flush=True)
    sys.exit(9)

ray.init(logging_level="ERROR")
signal.signal(signal.SIGTERM, told)  # Ray sets one of its own

@ray.remote(resources={"own": 1})
class Actor:
    def facts(self):
        print("the secret is", os.environ["A_TOKEN"])
        return os.environ["RAY_AUTH_MODE"] + " " + os.environ["OF_TASKS"]

actor = Actor.remote()
mode = ray.get(actor.facts.remote())
(node,) = ray.nodes()
has = {name: node["Resources"].get(name) for name in ("CPU", "GPU", "own")}
own = [os.environ[name] for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN_PATH")]
assert "OF_TASKS" not in os.environ
print("facts", json.dumps([node["NodeName"], has, mode, *own]), flush=True)
time.sleep(600)
"""
SECRET = "Xq7-not-to-be-seen"


def started(top: Path) -> tuple[Plan, subprocess.Popen[str]]:
    plan = plan_for(top, WAITS, name=f"ray-1120-{uuid.uuid4().hex[:8]}", launch="ray")
    of_tasks = {"env_vars": {"OF_TASKS": "here"}}
    plan = with_ray(plan, cpus=1, resources={"own": 1}, runtime_env=of_tasks)
    plan = replace(plan, secrets=(SecretRef("A_TOKEN", "environment"),))
    plan = replace(plan, resources=replace(plan.resources, gpus_per_node=2))  # which somebody has hidden from the job
    return plan, start_script(lay_out(plan), top, A_TOKEN=SECRET, CUDA_VISIBLE_DEVICES="-1")


def facts_of(process: subprocess.Popen[str]) -> list[object]:
    assert process.stdout is not None
    said = []
    while line := line_of(process.stdout, PATIENCE):
        said.append(line)
        if line.startswith("facts "):
            found: list[object] = json.loads(line.removeprefix("facts "))
            return found
    raise AssertionError("".join(said))


def test_two_clusters_on_one_machine_do_not_meet_and_nothing_of_them_is_left(tmp_path: Path):
    jobs = [started(tmp_path / name) for name in ("one", "two")]
    try:
        first, second = (facts_of(process) for _, process in jobs)
        assert first[:3] == second[:3] == ["node-0", {"CPU": 1.0, "GPU": None, "own": 1.0}, "token here"]
        assert first[3] != second[3]
        homes = [Path(str(facts[4])).parent for facts in (first, second)]
        assert [home.stat().st_mode & 0o777 for home in homes] == [0o700, 0o700]
        _is_stopped(*jobs[0])
        assert left_of(jobs[1][0].name)  # the other one goes on
        _is_killed(*jobs[1])
        until(lambda: not any(home.exists() for home in homes), "the end of their folders")
    finally:
        for _, process in jobs:
            process.kill()


def _is_stopped(plan: Plan, process: subprocess.Popen[str]) -> None:
    """The command hears of it and says what its job's exit code is; its node's logs are kept."""
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "told 15" in said) == (9, True), said
    assert not left_of(plan.name)
    logs = Path(plan.job_dir) / "logs" / "ray" / "node-0"
    assert (logs / "raylet.out").stat().st_size
    assert any("the secret is ******" in file.read_text() for file in logs.glob("worker-*.out"))
    assert not any(SECRET in file.read_text(errors="replace") for file in logs.iterdir()) and SECRET not in said
    assert "token" not in json.loads((Path(plan.job_dir) / "status" / "gates-0" / "ray.head").read_text())


def _is_killed(plan: Plan, process: subprocess.Popen[str]) -> None:
    """The supervisor itself."""
    kill(process.pid)
    process.wait(PATIENCE)
    wait_until_gone(plan.name)
