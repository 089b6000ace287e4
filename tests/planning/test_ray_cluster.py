"""The Ray cluster of a plan: of the profile's keys, and nothing of it under other launchers."""

from __future__ import annotations

import pytest
from support import HEADER

from nemo_runspec.errors import UserError
from nemo_runspec.planning.codec import plan_from_json, plan_to_json
from nemo_runspec.planning.ray_cluster import ray_cluster
from nemo_runspec.plans.model import RayCluster, Resources
from nemo_runspec.plans.target import Cores, Target

RAY = HEADER.replace('"direct"', '"ray"')
SLURM = '[cluster]\nexecutor = "slurm"\npartition = "p"\nremote_job_dir = "/lustre/run"\nnodes = 2\ncpus_per_task = 9\n'


class WithCores(Target):
    def __init__(self, cores: Cores | None) -> None:
        self._cores = cores

    def cores(self, resources: Resources) -> Cores | None:
        return self._cores


def cluster(cores: Cores | None = None, **env: object) -> RayCluster | None:
    return ray_cluster(env, "ray", Resources(nodes=2), WithCores(cores))


def test_other_launchers_have_none():
    assert ray_cluster({"ray_port": 1}, "torchrun", Resources(), WithCores(None)) is None


def test_what_the_keys_say():
    assert cluster() == RayCluster()
    assert cluster(
        ray_resources={"nrl_tag_ALL": 1}, ray_worker_resources={"worker_units": 2.5}, ray_start_timeout="1h",
        ray_tolerate_lost=True, ray_venv="/opt/venv/", ray_port=6379, ray_dashboard_port=0,
    ) == RayCluster(None, {"nrl_tag_ALL": 1.0}, {"worker_units": 2.5}, 3600, True, "/opt/venv", 6379, 0)  # fmt: skip


def test_cores_count_where_somebody_has_asked_for_them():
    assert [cluster(Cores(8, "cpus_per_task", told=told)).cpus for told in (True, False)] == [8, None]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"ray_launcher": "platform"}, "ray_launcher = 'platform' is not to be had"),
        ({"ray_start_timeout": "soon"}, "no length of time: 'soon'"),
        ({"ray_resources": {"GPU": 1}}, "GPU is Ray's own"),
        ({"ray_worker_resources": {"tag": "x"}}, "must be a number above 0, not 'x'"),
        ({"ray_worker_resources": {"tag": True}}, "must be a number above 0, not True"),
        ({"ray_runtime_env": {"working_dir": "."}}, "working_dir is not Ray's business here"),
        ({"ray_runtime_env": {"env_vars": {"HF_TOKEN": "x"}}}, "HF_TOKEN is a secret"),
        ({"ray_runtime_env": {"env_vars": {"A": 1}}}, "A must be a string"),
        ({"ray_runtime_env": {"env_vars": "A=1"}}, "env_vars must be a table"),
        ({"ray_port": 10001}, "Ray keeps 10001 for its clients"),
        ({"ray_dashboard_port": 12000}, "Ray keeps 12000 for its workers"),
        ({"ray_port": 80}, "80 is no port that a job may listen at"),
        ({"ray_port": 7000, "ray_dashboard_port": 7000}, "are the same"),
    ],
)
def test_what_no_cluster_can_have(env, said):
    with pytest.raises(UserError) as caught:
        cluster(**env)
    assert said in caught.value.what and caught.value.remedy and caught.value.key in env


def test_a_plan_has_it_and_shows_it(project, nemotron):
    """With its place where a key is wrong; it is kept in a saved plan, and told to the job."""
    project.recipe("rl/it", header=RAY)
    told = 'ray_resources = { nrl_tag_ALL = 1 }\nray_runtime_env = { env_vars = { A = "b" }, pip = ["c"] }\n'
    project.write("env.toml", SLURM + told)
    said = nemotron("rl", "it", "--run", "cluster", "--dry-run", "--full").succeeds().out
    assert '"ray": {"timeout": 600, "cpus": 9, "resources": {"nrl_tag_ALL": 1.0}, "runtime_env": {' in said
    assert '"env_vars": {"A": "b"}, "pip": ["c"]' in said
    project.write("env.toml", f"{SLURM}ray_port = 10001\n")
    refused = nemotron("rl", "it", "--run", "cluster", "--dry-run")
    assert refused.code == 2 and "env.toml:7 [cluster]" in refused.err, refused.err


def test_a_saved_plan_keeps_it(project, monkeypatch):
    from support import enter

    import nemo_runspec

    enter(project, monkeypatch)
    project.recipe("rl/it", header=RAY)
    project.recipe("rl/other")
    project.write("env.toml", f'{SLURM}ray_tolerate_lost = true\nray_runtime_env = {{ env_vars = {{ A = "b" }} }}\n')
    plan = nemo_runspec.plan("rl/it", profile="cluster")
    assert plan.ray == RayCluster(cpus=9, tolerate_lost=True, runtime_env={"env_vars": {"A": "b"}})
    assert plan_from_json(plan_to_json(plan), "plan.json").ray == plan.ray
    assert '"ray"' not in plan_to_json(nemo_runspec.plan("rl/other", profile="cluster"))
