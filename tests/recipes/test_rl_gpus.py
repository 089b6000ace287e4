"""Which GPUs the actors of tiny reinforcement learning take; Ray is told of some, as no test has any."""

from __future__ import annotations

import json
import subprocess

import pytest
from nano3.grpo.shares import gpu_share

from .conftest import SHARED, recipe_environment


@pytest.mark.parametrize(
    ("gpus", "actors", "share"),
    [(0, 3, 0.0), (1, 3, 1 / 3), (2, 3, 0.5), (3, 3, 1.0), (8, 3, 1.0), (2, 5, 1 / 3), (0.5, 2, 0.0)],
)
def test_a_whole_one_where_there_are_enough_else_an_equal_part_of_one(gpus, actors, share):
    assert gpu_share(gpus, actors) == share


PLACED = """
import json, sys
sys.path.insert(0, sys.argv[1])
import ray
from nano3.grpo.shares import gpu_share

class Actor:
    def gpus(self):
        return ray.get_gpu_ids()

found = []
ray.init(num_cpus=1, num_gpus=2, include_dashboard=False, logging_level="ERROR")
for actors in (2, 3, 5):
    share = gpu_share(ray.cluster_resources()["GPU"], actors)
    made = [ray.remote(num_cpus=0, num_gpus=share)(Actor).remote() for _ in range(actors)]
    found.append(sorted(number for own in ray.get([each.gpus.remote() for each in made]) for number in own))
    for each in made:
        ray.kill(each)
print(json.dumps(found))
"""


AT_HAND = """
import os, ray

class Actor:
    def sees(self):
        return os.environ.get("CUDA_VISIBLE_DEVICES")

ray.init(num_cpus=1, num_gpus=0, include_dashboard=False, logging_level="ERROR")
print(ray.get(ray.remote(num_cpus=0, num_gpus=0.0)(Actor).remote().sees.remote()))
"""


def test_a_gpu_at_hand_that_ray_was_not_told_of_is_not_hidden_from_actors(recipe_python):
    """As `tiny` asks for no GPU, Ray is told of none; a policy computes on what its process sees all the same."""
    environment = recipe_environment(RAY_USAGE_STATS_ENABLED="0", CUDA_VISIBLE_DEVICES="0")
    words = [str(recipe_python), "-W", "ignore", "-c", AT_HAND]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1:] == ["0"], done.stderr


def test_ray_places_all_actors_at_once(recipe_python):
    done = subprocess.run(
        [str(recipe_python), "-W", "ignore", "-c", PLACED, str(SHARED)],
        env=recipe_environment(RAY_USAGE_STATS_ENABLED="0"), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [list(map(str, each)) for each in json.loads(done.stdout.splitlines()[-1])]
    assert [len(each) for each in found] == [2, 3, 5]
    assert [set(each) for each in found] == [{"0", "1"}] * 3
