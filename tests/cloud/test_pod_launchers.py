"""Launchers over several pods, whose first node is known by a name."""

from __future__ import annotations

import os
import socket
import textwrap
import uuid

import pytest
from pod_process import cloud_plan, loaded, name_service, node, start, start_as_variables
from ray_jobs import LOSES, PATIENCE, left_of, with_ray

SUM = """
    import os, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    total = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(total)
    print("sum", total.item(), "of", dist.get_world_size(), "at", os.environ["MASTER_ADDR"])
    dist.destroy_process_group()
"""


DRIVER = f"""
    import os, ray
    ray.init(logging_level="ERROR")
    alive = sorted(node["NodeName"] for node in ray.nodes() if node["Alive"])
    print("driver with", *alive, "at", os.environ["MASTER_ADDR"], flush=True)
    ray.shutdown()
{textwrap.indent(LOSES, "    ")}
"""


@pytest.fixture
def port():
    """One that nobody else is given meanwhile, and where one may listen all the same."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("", 0))
        yield str(kept.getsockname()[1])


@pytest.mark.slow
def test_torchrun_meets_by_the_name_that_the_platform_gives(tmp_path, torch_bin, port):
    cargo = loaded(cloud_plan(tmp_path, SUM, launch="torchrun", nodes=2), kind="dgxcloud")
    given = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": "2", "PET_NPROC_PER_NODE": "7"}
    path = f"{torch_bin}:{os.environ['PATH']}"
    pods = [start_as_variables(cargo, RANK=str(index), PATH=path, **given) for index in (0, 1)]
    assert [pod.wait(900) for pod in pods] == [0, 0], pods[0].text + pods[1].text
    for number, pod in enumerate(pods):
        assert f"[rank{number}] sum 3.0 of 2 at localhost\n" in pod.text


def test_nodes_without_a_command_end_as_the_first_one_does(tmp_path):
    path = name_service(tmp_path, "worker-0.my-job-ab12-job-svc")
    cargo = loaded(cloud_plan(tmp_path, "print('ran', flush=True); raise SystemExit(6)", nodes=2, head_only=True))
    pods = [start(cargo, **node(index, PATH=path)) for index in (0, 1)]
    assert [pod.wait() for pod in pods] == [6, 6], pods[0].text + pods[1].text
    assert ["[rank0] ran" in pod.text for pod in pods] == [True, False]


@pytest.mark.slow
def test_ray_makes_one_cluster_of_the_pods_and_goes_on_without_one_that_may_be_lost(tmp_path):
    path = name_service(tmp_path, "worker-0.my-job-ab12-job-svc")
    plan = cloud_plan(tmp_path, DRIVER, name=f"pods-1120-{uuid.uuid4().hex[:8]}", launch="ray", nodes=2)
    cargo = loaded(with_ray(plan, worker_resources={"worker_units": 1}, tolerate_lost=True))
    pods = [start(cargo, **node(index, PATH=path, GOES_ON_AFTER="0")) for index in (0, 1)]
    assert [pod.wait(PATIENCE) for pod in pods] == [5, 5], pods[0].text + pods[1].text
    assert "driver with node-0 node-1 at worker-0.my-job-ab12-job-svc\n" in pods[0].text
    assert "went on" in pods[0].text and "Ray ended on node 1" in pods[1].text
    assert not left_of(plan.name)
