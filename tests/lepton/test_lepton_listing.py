"""`nemotron lepton …`: what the workspace has, as tables and as JSON."""

from __future__ import annotations

import re

import pytest
from lepton_project import Site, make_site

ROWS: dict[str, dict[str, object]] = {
    "shapes": {
        "shape": "gpu.8xh100-sxm", "group": "h100-pool", "cluster": "ng-h100-4f2a", "gpus": 8, "cpus": 192,
        "memory_gb": 1536,
    },
    "node-groups": {"name": "h100-pool", "id": "ng-h100-4f2a", "ready_nodes": 2, "quota_enabled": True},
    "nodes": {"node": "h100-node-1", "group": "h100-pool", "state": "open", "gpus": 8, "free": 5},
    "reservations": {
        "reservation": "res-7h3k", "group": "h100-pool", "phase": "Reserved", "desired": 5, "approved": 4,
        "reserved": 4,
        "nodes": [f"h100-node-{number}" for number in range(4)],
    },
    "volumes": {"volume": "lustre", "from": "node-nfs:lustre", "mounted_at": "/mnt/lustre", "path": "/lustre"},
    "shapes --node-group a100-pool": {"shape": "gpu.8xa100-80gb", "cluster": "ng-a100-77c1"},
    "volumes --node-group ng-a100-77c1": {"volume": "home", "group": "a100-pool"},
    "permissions home --node-group a100-pool": {"path": "/team", "group": "a100-pool"},
    "permissions filestore-1": {"path": "/public", "group": "h100-pool"},
    "secrets": {"secret": "hf", "kind": "variable"},
}  # fmt: skip


@pytest.fixture
def site(lepton_lab, tmp_path) -> Site:
    found = make_site(lepton_lab, tmp_path)
    world = lepton_lab.world
    group = world.groups[0]
    group.nodes[0] = type(group.nodes[0])("h100-node-0", unschedulable=True)
    group.nodes[1] = type(group.nodes[1])("h100-node-1", taken=3)
    group.nodes[2] = type(group.nodes[2])("h100-node-2", status=("NotReady",))
    world.secrets["hf"] = "hf_valuevaluevalue"
    world.registries["nvcr"] = {"registry_server": "nvcr.io", "username": "$oauthtoken", "password": "nvapi-value"}
    return found


@pytest.mark.slow
def test_what_there_is(site):
    for words, row in ROWS.items():
        found = site.nemotron("lepton", *words.split(), "--json").succeeds().json
        assert [each for each in found if row.items() <= each.items()], (words, found)
    shown = site.nemotron("lepton", "secrets", "--json").out
    assert "nvcr" in shown
    assert "value" not in shown, "names only"


def test_a_node_that_is_not_ready_is_not_open(site):
    found = site.nemotron("lepton", "nodes", "--json").succeeds().json
    [node] = [each for each in found if each["node"] == "h100-node-2"]
    assert (node["state"], node["gpus"], node["free"]) == ("NotReady", 8, 0)


@pytest.mark.slow
def test_one_node_group_of_several(site):
    """It is named; no profile is needed, and the profile's own does not count."""
    for listing in ("shapes", "nodes", "volumes"):
        for profile in ((), ("--profile", "one")):
            words = ("lepton", listing, *profile, "--node-group", "a100-pool", "--json")
            found = site.nemotron(*words).succeeds().json
            assert {each["group"] for each in found} == {"a100-pool"}, words
    site.nemotron("lepton", "volumes", "--node-group", "nope").refuses("nope", "h100-pool")


@pytest.mark.parametrize("columns", ["80", "120"])
def test_as_a_table(site, columns):
    out = site.nemotron("lepton", "nodes", "--profile", "one", COLUMNS=columns).succeeds().out
    head, *lines = out.splitlines()
    assert head.split() == ["NODE", "GROUP", "STATE", "GPUS", "FREE", "JOBS"]
    assert lines[0].split() == ["h100-node-0", "h100-pool", "takes", "no", "jobs", "8", "0"]
    assert {line.split()[1] for line in lines} == {"h100-pool"}, "the profile's node group only"
    assert max(map(len, out.splitlines())) <= int(columns)


def test_verbose_tells_what_is_asked_and_never_with_what(site):
    said = site.nemotron("lepton", "nodes", "--profile", "one", "-v").succeeds()
    lines = [line for line in said.err.splitlines() if "GET http" in line]
    assert lines and all(re.search(r"/\S+  \(\d+\.\d\d s, HTTP 200, .*B\)$", line) for line in lines), said.err
    assert site.lab.token not in said.err
    usual = site.nemotron("lepton", "nodes", "--profile", "one").succeeds()
    assert (usual.out, usual.err) == (said.out, "")


@pytest.mark.slow
def test_refusals(site):
    site.nemotron("lepton", "permissions", "nope").refuses("no volume 'nope'", "filestore-1")
    site.nemotron("dgxcloud", "pvcs").refuses("no profile of executor 'dgxcloud'", "--profile NAME")
    site.nemotron("dgxcloud", "pvcs", "--profile", "one").refuses("profile 'one' is one of executor 'lepton'")
    site.nemotron("lepton", "shapes", LEPTON_WORKSPACE_TOKEN="wrong").refuses(
        "the token is from LEPTON_WORKSPACE_TOKEN"
    )
