"""GPU-hours, and the warnings a plan carries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ENV_TOML

import nemo_runspec
from nemo_runspec.backends.lepton.shape_names import gpus_in
from nemo_runspec.duration import hours
from nemo_runspec.planning.limits import gpu_hours

PLAN = ["nano3", "pretrain", "-c", "tiny", "--run", "my-cluster", "--dry-run"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("30", 0.5), ("90:00", 1.5), ("00:30", 0.5 / 60), ("04:00:00", 4), ("1-0", 24), ("2-12", 60), ("1-06:30", 30.5),
        ("1-00:00:36", 24.01), ("0", None), ("0:00", None), ("0-0", None), ("UNLIMITED", None), ("infinite", None),
        (" 30 ", 0.5),
    ],
)  # fmt: skip
def test_sbatchs_own_forms(text, value):
    assert hours(text) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize("text", ["", "4h", "-1", "1:2:3:4", "1-", "1-2:3:4:5", "one", "1.5", ":", "1:", "²"])
def test_what_is_no_time(text):
    with pytest.raises(ValueError, match="not a time limit"):
        hours(text)


@given(st.integers(0, 9), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_days_and_hours_add_up(days, h, m, s):
    expected = days * 24 + h + m / 60 + s / 3600
    assert hours(f"{days}-{h:02}:{m:02}:{s:02}") == (pytest.approx(expected) if expected else None)


@pytest.mark.parametrize(
    ("env", "cost"),
    [
        ({"nodes": 4, "gpus_per_node": 8, "time": "02:00:00"}, 64),
        ({"nodes": 4, "gpus_per_node": 0}, 0),
        ({"nodes": 4, "gpus_per_node": 8, "time": "0"}, None),
        ({"nodes": 2, "gpus_per_node": 0, "gres": "gpu:h100:8", "time": "01:00:00"}, 16),
        ({"nodes": 2, "gpus_per_node": 0, "gres": "gpu:many", "time": "01:00:00"}, 2),
        ({"nodes": 2, "gpus_per_node": 0, "gres": "gpu:a:b:c", "time": "01:00:00"}, None),
        ({"nodes": 2, "gpus_per_node": 0, "gres": "craynetwork:1", "time": "01:00:00"}, 0),
        ({"nodes": 1, "gpus_per_node": 8, "time": "01:00:00", "array": "0-99%4"}, 800),
        ({"nodes": 1, "gpus_per_node": 8, "time": "01:00:00", "array": "0-15:4,20"}, 40),
        ({"nodes": 1, "gpus_per_node": 8, "time": "01:00:00", "retries": 2}, 24),
    ],
)
def test_what_a_plan_may_cost(project, env, cost):
    overrides = [f"run.env.{key}={value!r}" for key, value in env.items()]
    plan = nemo_runspec.plan("nano3/pretrain", config="tiny", profile="my-cluster", overrides=overrides)
    assert gpu_hours(plan) == (None if cost is None else pytest.approx(cost))


LEPTON = 'executor = "lepton"\ncontainer_image = "a/b:1"\nnemo_run_dir = "/mnt/x"\n'
RUNAI = """executor = "dgxcloud"
container_image = "a/b:1"
base_url = "https://runai.example.com/api/v1"
client_id = "me"
client_secret = "${oc.env:RUNAI_SECRET,given}"
project_name = "ours"
pvc_nemo_run_dir = "/vol/runs"
pvcs = [{ claimName = "vol", path = "/vol" }]
"""
DOCKER = 'executor = "docker"\ncontainer_image = "a/b:1"\n'
PARTS = "custom_spec = { compute = { %s } }"


@pytest.mark.parametrize(
    ("profile", "gpus"),
    [
        (LEPTON + 'resource_shape = "gpu.8xh100-sxm"', 16),
        (LEPTON + 'resource_shape = "gpu.8xh100-sxm"\ngpus_per_node = 4', 16),
        (LEPTON + 'resource_shape = "gpu.0.5xh200"', 2),
        (LEPTON + 'resource_shape = "gpu.a10.6xlarge"', 2),
        (LEPTON + 'resource_shape = "cpu.small"', 0),
        (LEPTON + 'resource_shape = "our-large-one"', None),
        (LEPTON + 'resource_shape = "our-large-one"\ngpus_per_node = 4', 8),
        (LEPTON + 'custom_spec = { resource_shape = "gpu.2xa100-80gb" }', 4),
        (LEPTON + "gpus_per_node = 8", 16),
        (LEPTON, 0),
        (RUNAI + "gpus_per_node = 8", 16),
        (RUNAI + PARTS % "gpuDevicesRequest = 4", 8),
        (RUNAI + PARTS % 'gpuRequestType = "portion", gpuPortionRequest = 0.5', 2),
        (RUNAI + PARTS % 'extendedResources = [{ resource = "nvidia.com/gpu-x", quantity = "1" }]', None),
        (RUNAI, 0),
        (DOCKER + "gpus_per_node = 8", 8),
        (DOCKER + "num_gpus = -1", None),
        (DOCKER + 'runtime = "nvidia"', None),
        (DOCKER + 'runtime = "nvidia"\ngpus_per_node = 2', 2),
        (DOCKER, 0),
    ],
)
def test_gpus_are_counted_whatever_asks_for_them_and_a_ceiling_refuses_what_is_not_known(
    project, nemotron, profile, gpus
):
    """The same number in the page, the JSON and the ceiling; `gpus_per_node` is the recipe's none."""
    nodes = "" if "docker" in profile else "nodes = 2\n"
    project.write("env.toml", f"[it]\n{nodes}{profile}\n")
    project.write("job.py", "print('x')\n")
    words = ("run", "./job.py", "--run" if "docker" in profile else "--batch", "it", "--dry-run")
    (cost,) = (line for line in nemotron(*words).succeeds().out.splitlines() if line.startswith("cost"))
    assert ("GPUs unknown," if gpus is None else f"{gpus} GPU") in cost
    limit = {None: "GPU-hours unknown", 0: "at most 0.0 GPU-hours"}.get(gpus, "no limit")
    assert cost.endswith(limit)
    assert nemotron(*words, "--json").json["gpu_hours"] == (0 if gpus == 0 else None)
    project.write("env.toml", f"[it]\n{nodes}max_gpu_hours = 5\n{profile}\n")
    if gpus == 0:
        nemotron(*words).succeeds()
    elif gpus is None:
        key = "num_gpus" if "docker" in profile else "gpus_per_node"
        said = (
            "an unknown number of GPU-hours (GPUs unknown x no time limit)",
            f"say how many GPUs there are, such as run.env.{key}=8; or run.env.max_gpu_hours=null takes",
        )
        nemotron(*words).refuses(*said)
    else:
        nemotron(*words).refuses(f"GPU-hours without a limit ({gpus} GPUs x no time limit)")


@pytest.mark.parametrize(
    ("shape", "said"), [("our-large-one", "GPU-hours unknown"), ("cpu.small", "at most 0.0 GPU-hours")]
)
def test_what_the_runs_of_a_sweep_may_cost_together(project, nemotron, shape, said):
    project.write("env.toml", f'[it]\n{LEPTON}resource_shape = "{shape}"\n')
    project.write("job.py", "print('x')\n")
    words = ("run", "./job.py", "--batch", "it", "-m", "+run.env.env_vars.N=1,2", "--dry-run")
    assert f"together: {said}" in nemotron(*words).succeeds().out.splitlines()


def test_the_names_of_leptons_own_list_all_say_how_many_gpus_there_are():
    config = pytest.importorskip("leptonai.config")
    found = {name: gpus_in(name) for name in config.VALID_SHAPES}
    assert set(found.values()) == {0, 1, 2, 4, 8}
    assert all((count == 0) == name.startswith("cpu.") for name, count in found.items())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("exclusive = true", "GPUs unknown"),
        ('exclusive = "topo"', "GPUs unknown"),
        ('exclusive = "user"', "0 GPUs in all"),
        ("exclusive = true\ngpus_per_node = 0", "0 GPUs in all"),
        ("exclusive = true\ngpus_per_node = 8", "8 GPUs in all"),
        ('exclusive = true\ngres = "gpu:4"', "4 GPUs in all"),
    ],
)
def test_whole_nodes_of_slurm_come_with_all_their_gpus(project, nemotron, more, said):
    """So that nobody knows how many they are, unless something says it; a ceiling then refuses."""
    project.write("env.toml", f'[it]\nexecutor = "slurm"\ntime = "01:00:00"\n{more}\n')
    project.write("job.py", "print('x')\n")
    (cost,) = (
        line for line in nemotron("run", "./job.py", "-b", "it", "-d").succeeds().out.splitlines() if "cost" in line
    )
    assert said in cost
    project.write("env.toml", f'[it]\nexecutor = "slurm"\ntime = "01:00:00"\nmax_gpu_hours = 8\n{more}\n')
    outcome = nemotron("run", "./job.py", "-b", "it", "-d")
    if "unknown" in said:
        outcome.refuses("an unknown number of GPU-hours", "run.env.gpus_per_node=8")
    else:
        outcome.succeeds()


TORCHRUN = """\
# /// script
# [tool.runspec]
# schema = "1"
# [tool.runspec.run]
# launch = "torchrun"
# ///
"""


@pytest.mark.parametrize(
    "profile",
    [
        LEPTON + 'resource_shape = "gpu.8xh100-sxm"',
        'executor = "slurm"\ngres = "gpu:8"',
        RUNAI + PARTS % "gpuDevicesRequest = 8",
        DOCKER + "num_gpus = 8",
    ],
)
def test_gpus_without_a_process_each_are_told_however_they_are_asked_for(project, nemotron, profile):
    project.write("job.py", TORCHRUN)
    project.write("env.toml", f"[it]\n{profile}\n")
    said = nemotron("run", "./job.py", "-r", "it", "-d").succeeds().out
    assert "1 process per node for 8 GPUs per node; one for each: gpus_per_node = 8" in said
    project.write("env.toml", f"[it]\n{profile}\nnproc_per_node = 8\n")
    assert "per node for" not in nemotron("run", "./job.py", "-r", "it", "-d").succeeds().out


@pytest.fixture
def ceiling(project):
    def put(line):
        project.write("env.toml", ENV_TOML.replace('partition = "batch"', f'partition = "batch"\n{line}'))

    return put


def test_a_plan_beyond_the_ceiling_is_refused(ceiling, nemotron):
    ceiling("max_gpu_hours = 100")
    outcome = nemotron(*PLAN)
    outcome.refuses("128.0 GPU-hours (32 GPUs x 04:00:00)", "the profile allows 100", "env.toml:17 [my-cluster]")
    raised = outcome.err.strip().rsplit(" ", 1)[1]
    assert raised.startswith("run.env.max_gpu_hours=")
    nemotron(*PLAN, raised).succeeds()
    nemotron(*PLAN, "run.env.nodes=3").succeeds()
    nemotron(*PLAN, "run.env.time=03:00:00").succeeds()
    ceiling("max_gpu_hours = 128")
    assert "at most 128.0 GPU-hours" in nemotron(*PLAN).succeeds().out


def test_a_ceiling_without_a_limit(ceiling, nemotron):
    ceiling("max_gpu_hours = 100")
    nemotron(*PLAN, "run.env.time=UNLIMITED").refuses("GPU-hours without a limit", "run.env.time=HH:MM:SS")
    nemotron(*PLAN, "run.env.gpus_per_node=0", "run.env.time=UNLIMITED").succeeds()


def test_the_cost_stands_in_the_json(project, nemotron):
    assert nemotron(*PLAN, "--json").json["gpu_hours"] == 128


def test_processes_that_differ_from_gpus_are_a_warning(project):
    def warnings(*overrides: str, profile: str = "my-cluster") -> str:
        return "\n".join(
            nemo_runspec.plan("nano3/pretrain", config="tiny", profile=profile, overrides=overrides).warnings
        )

    assert "4 processes per node for 8 GPUs" in warnings("run.env.nproc_per_node=4")
    assert "processes per node" not in warnings()
    assert "processes per node" not in warnings(profile="laptop")


@pytest.mark.parametrize(
    ("overrides", "processes"),
    [
        ([], 8),
        (["run.env.nproc_per_node=null"], 8),
        (["run.env.nproc_per_node=null", "run.env.gpus_per_node=0"], 1),
        (["run.env.nproc_per_node=null", "run.env.gpus_per_node=null"], 1),
        (["run.env.nproc_per_node=3"], 3),
    ],
)
def test_processes_per_node(project, overrides, processes):
    plan = nemo_runspec.plan("nano3/pretrain", config="tiny", profile="my-cluster", overrides=overrides)
    assert plan.resources.nproc_per_node == processes


def test_torchrun_has_no_first_node_that_works_alone(nemotron, project):
    project.write("env.toml", f"{ENV_TOML}\n[alone]\nextends = 'my-cluster'\nhead_only = true\n")
    words = [word if word != "my-cluster" else "alone" for word in PLAN]
    nemotron(*words).refuses("head_only runs the command on node 0 alone", 'launch = "direct"', "env.toml:")
