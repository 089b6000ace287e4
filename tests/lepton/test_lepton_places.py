"""What only the platform knows: node groups, shapes, volumes and permissions; asked for, never guessed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from job_scripts import plan_for
from labs.lepton.world import Group, Node, Volume
from lepton_jobs import api_of

from nemo_runspec.backends.lepton.fields import LeptonTarget
from nemo_runspec.backends.lepton.resolve import fill_mounts
from nemo_runspec.backends.lepton.shapes import resolve_shape
from nemo_runspec.errors import UserError
from nemo_runspec.planning.kept import problems_of
from nemo_runspec.plans.model import Artifact

H100 = "ng-h100-4f2a"


def target_of(*mounts, at="") -> LeptonTarget:
    return LeptonTarget(container_image="i", nemo_run_dir="/r", mounts=tuple(mounts), mounted_at=at)


def at(path, **more) -> dict:
    return {"path": path, "mount_path": path, **more}


@pytest.fixture
def api(lepton_lab):
    return api_of(lepton_lab)


@pytest.mark.parametrize("named", [H100, "h100-pool"])
def test_a_node_group_by_id_or_name(api, named):
    assert api.node_group(named)["metadata"]["id"] == H100


def test_a_node_group_that_is_not_there(api):
    with pytest.raises(UserError, match="no node group 'b200'") as caught:
        api.node_group("b200")
    assert "h100-pool (ng-h100-4f2a)" in caught.value.remedy


@pytest.mark.parametrize(("gpus", "group", "shape"), [(8, H100, "gpu.8xh100-sxm"), (1, "", "gpu.1xh100-sxm")])
def test_the_only_shape_that_fits(api, gpus, group, shape):
    assert resolve_shape(api, gpus, group) == shape


@pytest.mark.parametrize(
    ("gpus", "group", "what", "remedy"),
    [
        (2, H100, "2 shapes have 2 GPUs", "gpu.2xh100-himem, gpu.2xh100-sxm"),
        (8, "", "2 shapes have 8 GPUs", "gpu.8xa100-80gb, gpu.8xh100-sxm"),
        (4, H100, "no shape of that node group has 4", "gpu.8xh100-sxm (8 GPUs)"),
        (16, "", "no shape of the workspace has 16", "cpu.small (0 GPUs)"),
    ],
)
def test_shapes_that_cannot_be_told_apart_or_are_not_there(api, gpus, group, what, remedy):
    with pytest.raises(UserError, match=what) as caught:
        resolve_shape(api, gpus, group)
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("volumes", "place", "mount"),
    [
        ([Volume("home"), Volume("my-filestore"), Volume("lustre-2")], "/r", ("/", "node-nfs:lustre-2")),
        ([Volume("home"), Volume("filestore", prefixes=("/team",))], "/r", ("/team", "node-nfs:filestore")),
        ([Volume("scratch", "local"), Volume("a"), Volume("b")], "/r", ("/", "node-nfs:a")),
        ([Volume("lustre", prefixes=()), Volume("b")], "/r", ("/", "node-nfs:b")),
        ([Volume("lustre"), Volume("home")], "/mnt/home", ("/", "node-nfs:home")),
    ],
)
def test_a_volume_is_found_where_the_profile_names_none(lepton_lab, api, volumes, place, mount):
    lepton_lab.world.groups[0].volumes = volumes
    path, source = mount
    found = fill_mounts(api, target_of(at=place), api.node_group(H100))
    assert found == {"MOUNT": [{"path": path, "mount_path": place, "from": source}]}


def test_no_volume_at_all(lepton_lab, api):
    lepton_lab.world.groups[0].volumes = [Volume("scratch", "local")]
    assert fill_mounts(api, target_of(at="/r"), api.node_group(H100)) == {"MOUNT": []}


def test_no_permission_for_any_volume(lepton_lab, api):
    lepton_lab.world.groups[0].volumes = [Volume("lustre", prefixes=())]
    with pytest.raises(UserError, match="no permission for any volume of node group 'h100-pool' \\(lustre\\)"):
        fill_mounts(api, target_of(at="/r"), api.node_group(H100))


def test_the_volume_of_a_mount_that_names_none(lepton_lab, api):
    lepton_lab.world.groups[0].volumes = [
        Volume("lustre", prefixes=("/team",)), Volume("home", prefixes=("/export", "/users"))
    ]  # fmt: skip
    target = target_of(at("/team/me"), at("/data", **{"from": "node-nfs:x"}), at("/users"))
    found = fill_mounts(api, target, api.node_group(H100))
    assert found == {"MOUNT_0_FROM": "node-nfs:lustre", "MOUNT_2_FROM": "node-nfs:home"}
    with pytest.raises(UserError, match=r"mounts\[0\]: you have no permission for /teams") as caught:
        fill_mounts(api, target_of(at("/teams")), api.node_group(H100))
    assert caught.value.remedy == (
        "permissions you have: /team of node-nfs:lustre, /export of node-nfs:home, /users of node-nfs:home"
    )


def test_a_volume_that_cannot_be_told(lepton_lab, api):
    """A node's own disk is not meant where storage that all nodes see fits; of two of those one has to be named."""
    group = lepton_lab.world.groups[0]
    group.volumes = [Volume("scratch", "local"), Volume("lustre")]
    assert fill_mounts(api, target_of(at("/")), api.node_group(H100)) == {"MOUNT_0_FROM": "node-nfs:lustre"}
    group.volumes.append(Volume("home"))
    with pytest.raises(UserError, match="/ can be mounted of 2 volumes of node group 'h100-pool'") as caught:
        fill_mounts(api, target_of(at("/")), api.node_group(H100))
    assert caught.value.remedy == 'name the one that is meant: from = "node-nfs:lustre" or from = "node-nfs:home"'
    group.volumes = [Volume("scratch", "local"), Volume("lustre", prefixes=("/team",))]
    assert fill_mounts(api, target_of(at("/")), api.node_group(H100)) == {"MOUNT_0_FROM": "node-local"}


def test_the_only_node_group_need_not_be_named(lepton_lab, api):
    with pytest.raises(UserError, match="whose volume is meant") as caught:
        fill_mounts(api, target_of(at("/team")), None)
    assert "a100-pool, h100-pool" in caught.value.remedy
    assert fill_mounts(api, target_of(at="/r"), None) == {"MOUNT": []}
    lepton_lab.world.groups = [Group("ng", "only", "H100", [Node("n")], [Volume("v")])]
    assert fill_mounts(api, target_of(at("/team")), None) == {"MOUNT_0_FROM": "node-nfs:v"}


def making(top, *paths, outputs=(), mounts=()):
    """A plan of one node whose directory for jobs is on no mount, and that makes `model-0`, `model-1`, … at these."""
    target = replace(target_of(*mounts), nemo_run_dir="/run", outputs=outputs, output_url="s3://bucket/out")
    made = tuple(Artifact(f"model-{number}", "model", path=path) for number, path in enumerate(paths))
    return replace(plan_for(top, executor="lepton"), target=target, produces=made)


@pytest.mark.parametrize(
    ("places", "lost"),
    [
        ({}, (0, 1)),
        ({"outputs": ("/logs",)}, (0, 1)),
        ({"outputs": ("/scratch/run", "/scratch/runs/m")}, (1,)),
        ({"mounts": (at("/scratch/runs/"),)}, (0,)),
        ({"mounts": (at("/scratch/runs/model/x"),), "outputs": ("/scratch/run/./a/",)}, (1,)),
        ({"outputs": ("/logs", "/scratch/run/a/", "/scratch/runs")}, ()),
        ({"mounts": (at("/scratch/"),)}, ()),
        ({"mounts": (at("/scratch/run"),), "outputs": ("/scratch/runs",)}, ()),
    ],
)
def test_what_neither_a_mount_nor_an_output_holds_is_refused(tmp_path, places, lost):
    paths = ("/scratch/run/a", "/scratch/runs/model")
    found = [problem.what for problem in problems_of(making(tmp_path, *paths, **places))]
    assert found == [
        f"output 'model-{number}' would be lost when the job ends: {paths[number]} is on none of mounts"
        for number in lost
    ]


def test_mounts_of_a_profile_and_the_node_groups_volume_besides(lepton_lab, api):
    """A directory for jobs on none of the mounts gets one of its own, whatever else is mounted."""
    target = replace(target_of(at("/users")), mounted_at="/nemo_run")
    found = fill_mounts(api, target, api.node_group(H100))
    assert found["MOUNT_0_FROM"] == "node-nfs:lustre"
    assert [mount["mount_path"] for mount in found["MOUNT"]] == ["/nemo_run"]
