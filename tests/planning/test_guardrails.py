"""What a profile must have for what a recipe needs: held by `env check`, and before anything is submitted."""

from __future__ import annotations

import pytest
from support import HEADER

from nemo_runspec.planning.rl_placement import misplaced, placement_of

CPU = HEADER.replace("# [tool.runspec.run]", "# [tool.runspec.resources]\n# gpus_per_node = 0\n# [tool.runspec.run]")
RAY = HEADER.replace('"direct"', '"ray"')
SLURM = '[cluster]\nexecutor = "slurm"\npartition = "p"\nexclusive = true\n'
CONTAINER = f'{SLURM}container_image = "nvcr.io/nvidia/nemo:26.04"\nremote_job_dir = "/lustre/me"\n'


@pytest.fixture
def plan(nemotron, project):
    """`plan("curate", profile, …)`: a dry run of a step, with its warnings."""

    def run(step, profile, *words):
        return nemotron("steps", "run", step, "-r", profile, "--dry-run", *words)

    return run


class TestUnusedGpus:
    @pytest.mark.parametrize(
        ("profile", "key"),
        [
            ('executor = "slurm"\npartition = "p"\ngpus_per_node = 8\n', "gpus_per_node"),
            ('executor = "slurm"\npartition = "p"\ngres = "gpu:8"\n', "gres"),
            (
                'executor = "lepton"\nnode_group = "g"\nnemo_run_dir = "/mnt/x"\nresource_shape = "gpu.8xh100-sxm"\n'
                'container_image = "x:1"\n',
                "resource_shape",
            ),
            ('executor = "docker"\ncontainer_image = "x:1"\ngpus_per_node = 8\n', "gpus_per_node"),
        ],
    )
    def test_of_a_profile_for_the_step_they_are_wrong(self, plan, nemotron, project, profile, key):
        project.recipe("steps/curate/it", header=CPU)
        project.write("env.toml", f"[far_curate_it]\n{profile}[other]\n{profile}")
        line = 1 + next(n for n, text in enumerate(project.env_file.read_text().splitlines()) if text.startswith(key))
        refused = plan("curate/it", "far_curate_it")
        refused.refuses("8 GPUs would be taken for a recipe that uses none", f"env.toml:{line} [far_curate_it]")
        checked = nemotron("env", "check")
        assert checked.code == 2
        assert "profile 'far_curate_it': 8 GPUs would be taken" in checked.err
        assert f"env.toml:{line} [far_curate_it]" in checked.err
        assert "1 of 2 profiles wrong: far_curate_it" in checked.out

    def test_of_any_other_profile_they_are_odd(self, plan, nemotron, project):
        project.recipe("steps/curate/it", header=CPU)
        project.write("env.toml", f"{SLURM}gpus_per_node = 8\n")
        assert "8 GPUs would be taken for a recipe that uses none (env.toml:5" in plan("curate/it", "cluster").out
        assert nemotron("env", "check").succeeds().out == "env.toml: 1 profile, all right\n"

    def test_what_is_typed_or_what_a_config_asks_for_is_meant(self, plan, project):
        gpu = "run: {env: {gpus_per_node: 8}}\nvalue: 1\n"
        project.recipe("steps/curate/it", header=CPU, default="value: 1\n", gpu=gpu)
        project.write("env.toml", SLURM.replace("cluster", "far_curate_it"))
        assert "GPUs would be" not in plan("curate/it", "far_curate_it", "run.env.gpus_per_node=8").succeeds().out
        assert "GPUs would be" not in plan("curate/it", "far_curate_it", "-c", "gpu").succeeds().out
        assert "GPUs would be" not in plan("curate/it", "far_curate_it").succeeds().out


class TestRay:
    @pytest.mark.parametrize(
        ("keys", "there"),
        [("cpus_per_task = 4\n", "4 CPU cores"), ("cpus_per_gpu = 1\ngpus_per_task = 8\n", "8 CPU cores")],
    )
    def test_too_few_cores(self, plan, nemotron, project, keys, there):
        project.recipe("steps/rl/it", header=RAY)
        profile = f'[far_rl_it]\nexecutor = "slurm"\npartition = "p"\ngpus_per_node = 8\n{keys}'
        project.write("env.toml", profile)
        told = (f"Ray would have {there} per node, and needs 9", "env.toml:5 [far_rl_it]", "=16 or more")
        plan("rl/it", "far_rl_it").refuses(*told)
        checked = nemotron("env", "check")
        assert checked.code == 2
        assert all(word in checked.err for word in told)

    def test_a_core_that_nobody_asked_for_is_odd(self, plan, nemotron, project):
        project.recipe("steps/rl/it", header=RAY)
        project.write("env.toml", '[far_rl_it]\nexecutor = "slurm"\npartition = "p"\ngpus_per_node = 8\n')
        assert "Ray would have 1 CPU core per node, and needs 9" in plan("rl/it", "far_rl_it").succeeds().out
        assert "warning: Ray would have 1 CPU core" in nemotron("env", "check").succeeds().out

    def test_enough_cores(self, plan, project):
        project.recipe("steps/rl/it", header=RAY)
        project.write(
            "env.toml",
            f"{SLURM}gpus_per_node = 8\n[some]\nextends = 'cluster'\nexclusive = false\ncpus_per_task = 16\n",
        )
        assert "Ray would" not in plan("rl/it", "cluster").succeeds().out
        assert "Ray would" not in plan("rl/it", "some").succeeds().out


RL = """\
run: {{env: {{nodes: {nodes}, gpus_per_node: {gpus}}}}}
cluster: {{num_nodes: 2, gpus_per_node: 8}}
data: {{train: {{env_name: reward_model}}}}
env: {{reward_model: {{resources: {{num_nodes: {reward}, gpus_per_node: 8}}}}}}
policy:
  generation: {{colocated: {{enabled: {colocated}, resources: {{num_nodes: {generation}, gpus_per_node: 8}}}}}}
"""


class TestPlacement:
    @pytest.mark.parametrize(
        ("shape", "told"),
        [
            ({"nodes": 1}, "the config places its models on 2 nodes, and the job has 1"),
            ({"gpus": 4}, "the config places its models on 8 GPUs per node, and the job has 4"),
            ({"reward": 2}, "the reward model takes 2 x 8 GPUs, which leaves nothing of 2 x 8 GPUs"),
            ({"colocated": "false"}, "generation beside training takes 1 to 7 of 8 GPUs of one node"),
            ({"colocated": "false", "reward": 0}, "generation takes 1 to 1 of 2 nodes, and all their GPUs"),
        ],
    )
    def test_what_has_no_room_stops(self, plan, nemotron, project, shape, told):
        values = {"nodes": 2, "gpus": 8, "reward": 1, "colocated": "true", "generation": 2, **shape}
        project.recipe("steps/rl/it", header=RAY, default=RL.format(**values))
        project.write("env.toml", SLURM.replace("cluster", "far_rl_it"))
        plan("rl/it", "far_rl_it").refuses(told, "default.yaml:")
        checked = nemotron("env", "check")
        assert checked.code == 2
        assert f"profile 'far_rl_it': {told}" in checked.err

    def test_nodes_that_nothing_is_placed_on_are_odd(self, plan, project):
        values = {"nodes": 2, "gpus": 8, "reward": 1, "colocated": "true", "generation": 2}
        project.recipe("steps/rl/it", header=RAY, default=RL.format(**values))
        project.write("env.toml", f"{SLURM}nodes = 4\n[few]\nextends = 'cluster'\nnodes = 1\n")
        out = plan("rl/it", "cluster").succeeds().out
        assert "on 2 nodes, and the job has 4" in out
        assert "run.env.nodes=2, or cluster.num_nodes=4" in out
        assert "the job has" not in plan("rl/it", "cluster", "cluster.num_nodes=4").succeeds().out
        plan("rl/it", "few").refuses("on 2 nodes, and the job has 1", "run.env.nodes=2")

    @pytest.mark.parametrize(
        ("nodes", "generation", "reward", "fits"),
        [
            (1, (None, 4), (1, 2), True),
            (1, (None, 4), (1, 4), False),
            (1, (2, 4), None, False),
            (4, (1, 8), (1, 8), True),
            (4, (2, 8), (1, 8), True),
            (4, (3, 8), (1, 8), False),
            (4, (1, 4), None, False),
            (2, (1, 4), (1, 8), True),
        ],
    )
    def test_generation_on_gpus_of_its_own(self, nodes, generation, reward, fits):
        keys = ("num_nodes", "gpus_per_node")
        judge = {"reward_model": {"enabled": True, "resources": dict(zip(keys, reward, strict=True))}} if reward else {}
        own = {"enabled": False, "resources": dict(zip(keys, generation, strict=True))}
        placement = placement_of(
            {
                "cluster": {"num_nodes": nodes, "gpus_per_node": 8},
                "policy": {"generation": {"colocated": own}},
                "env": judge,
            }
        )
        assert (list(misplaced(placement, nodes, 8)) == []) == fits

    def test_parallel_sizes_divide_what_is_left(self):
        cfg = {"enabled": True, "tensor_model_parallel_size": 4, "pipeline_model_parallel_size": 2}
        config = {"cluster": {"num_nodes": 1, "gpus_per_node": 8}, "policy": {"megatron_cfg": cfg}}
        assert list(misplaced(placement_of(config), 1, 8)) == []
        cfg["context_parallel_size"] = 2
        assert "takes 16 GPUs" in next(iter(misplaced(placement_of(config), 1, 8))).what

    def test_without_gpus_no_reward_model_is_to_blame(self):
        config = {"cluster": {"num_nodes": 1, "gpus_per_node": 0}, "policy": {}}
        (found,) = misplaced(placement_of(config), 1, 0)
        assert (found.what, found.key) == ("1 x 0 GPUs are none to train on", "cluster.gpus_per_node")

    def test_no_other_config_has_a_placement(self):
        assert placement_of({"cluster": {"name": "x"}, "policy": {}}) is None
        assert placement_of({"model": {"policy": {}}, "cluster": 3}) is None
        assert placement_of({"rl": {"cluster": {"num_nodes": 1}, "policy": {}}}).prefix == "rl."


class TestPaths:
    CONFIG = """\
output_dir: ${run.output_dir}
dataset: {path: /data/mine.jsonl, tokenizer: /models/tok}
tool: /opt/nemo/bin/tool
data_file: /opt/nemo/data.json
route: /v1/chat/completions
"""

    def test_data_and_models_lie_on_a_mount(self, plan, project):
        project.recipe("steps/sft/it", default=self.CONFIG)
        project.write("env.toml", f'{CONTAINER}mounts = ["/data:/data"]\n')
        out = plan("sft/it", "cluster").succeeds().out
        told = [line for line in out.splitlines() if "is on none of" in line and "only the image" in line]
        assert len(told) == 1, told
        assert "dataset.tokenizer: /models/tok is on none of mounts (/data, /lustre/me)" in told[0]
        assert 'add to mounts: "/models:/models"' in told[0]
        assert "default.yaml:2" in told[0]

    def test_without_a_container_everything_is_seen(self, plan, project):
        project.recipe("steps/sft/it", default=self.CONFIG)
        project.write("env.toml", SLURM)
        assert "only the image" not in plan("sft/it", "cluster").succeeds().out

    def test_env_check_says_it_of_a_profile_for_the_step(self, nemotron, project):
        project.recipe("steps/sft/it", default=self.CONFIG)
        project.write("env.toml", CONTAINER.replace("cluster", "far_sft_it"))
        out = nemotron("env", "check").succeeds().out
        assert "warning: dataset.path: /data/mine.jsonl is on none of mounts" in out


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ('executor = "slurm"\npartition = "p"\nmounts = [{ path = "/", mount_path = "/x" }]\n', "mounts"),
        ('executor = "docker"\ncontainer_image = "x"\nmounts = [{ path = "/", mount_path = "/x" }]\n', "mounts[0]"),
        ('executor = "lepton"\nnode_group = "g"\nnemo_run_dir = "/x/y"\nmounts = ["/x:/x"]\n', "mounts[0]"),
    ],
)
def test_mounts_have_the_shape_of_their_executor(nemotron, project, keys, told):
    project.write("env.toml", f"[far]\n{keys}")
    checked = nemotron("env", "check")
    assert checked.code == 2
    assert told in checked.err
    assert f"at:  env.toml:{keys.count(chr(10)) + 1} [far]" in checked.err
