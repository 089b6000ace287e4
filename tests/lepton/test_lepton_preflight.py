"""`nemotron doctor PROFILE` on the Lepton lab: what is wrong is named, each with its mend; and the fast part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from cloud_plans import plan_of
from labs.lepton.lab import LeptonLab
from labs.lepton.world import Node
from labs.registry import RegistryLab
from lepton_jobs import api_of
from support import Outcome, Project, call

from nemo_runspec.backends.lepton.preflight import fast_checks
from nemo_runspec.transport.base import Unreachable

GOOD: dict[str, Any] = {
    "nodes": 2, "gpus_per_node": 8, "node_group": "h100-pool", "resource_shape": "gpu.8xh100-sxm",
    "nemo_run_dir": "/mnt/lustre/run",
    "mounts": [{"path": "/", "mount_path": "/mnt/lustre", "from": "node-nfs:lustre"}],
}  # fmt: skip

Doctor = Callable[..., Outcome]


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryLab]:
    lab = RegistryLab()
    yield lab
    lab.close()


@pytest.fixture
def doctor(lepton_lab: LeptonLab, registry: RegistryLab, project: Project, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """`doctor(nodes=9)`: the doctor's word on a profile that is good but for what is given, as JSON."""
    for name, value in lepton_lab.environment().items():
        monkeypatch.setenv(name, value)

    def ask(**keys: Any) -> Outcome:
        values = {"executor": "lepton", "container_image": f"{registry.name}/open/image:1", **GOOD, **keys}
        lines = [f"{key} = {toml(value)}" for key, value in values.items() if value is not None]
        project.write("env.toml", "\n".join(("[c]", *lines, "")))
        return call("doctor", "c", "--json")

    return ask


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {toml(each)}' for key, each in value.items())} }}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value)


def verdicts(told: Outcome) -> dict[str, str]:
    return {check["name"]: check["verdict"] for check in told.json["checks"]}


def says(told: Outcome, name: str, verdict: str, *words: str) -> None:
    """Asserts a check of that name and verdict whose text has all the words."""
    found = [check for check in told.json["checks"] if check["name"] == name and check["verdict"] == verdict]
    texts = [" ".join(str(text) for text in check.values()) for check in found]
    assert any(all(word in text for word in words) for text in texts), told.out


def test_a_good_profile(doctor: Doctor, lepton_lab: LeptonLab):
    told = doctor(node_reservation="res-7h3k", queue_priority="mid-4000")
    assert told.code == 0, told.out
    assert {name for name, verdict in verdicts(told).items() if verdict != "ok"} == {"W&B", "Hugging Face"}
    for name, words in {
        "credentials": ("LEPTON_WORKSPACE_TOKEN",), "workspace": ("ws-lab",), "node group": ("h100-pool",),
        "shape": ("8 GPUs",), "room": ("4 free now",), "reservation": ("Reserved",), "queue": ("mid-4000",),
        "mounts": ("permitted",), "image": ("has",), "code": ("inline",),
    }.items():  # fmt: skip
        says(told, name, "ok", *words)
    assert {call.method for call in lepton_lab.calls} == {"GET"}  # nothing was made
    assert len(lepton_lab.calls) <= 12
    assert lepton_lab.token not in told.out


@pytest.mark.parametrize(
    ("keys", "check", "words"),
    [
        ({"node_group": "b200-pool"}, "node group", ("no node group 'b200-pool'", "h100-pool (ng-h100-4f2a)")),
        ({"resource_shape": "gpu.9"}, "shape", ("no resource_shape 'gpu.9'", "gpu.8xh100-sxm (8 GPUs)")),
        ({"resource_shape": "gpu.8xh100-endpoint"}, "shape", ("for jobs",)),
        ({"resource_shape": None, "gpus_per_node": 3}, "shape", ("no shape of that node group has 3 GPUs",)),
        ({"resource_shape": None, "gpus_per_node": 2}, "shape", ("2 shapes", "gpu.2xh100-himem", "gpu.2xh100-sxm")),
        ({"nodes": 5}, "room", ("5 nodes of 8 GPUs wanted, 4 free now, 4 in all", "ask for less")),
        ({"node_reservation": "res-none"}, "reservation", ("no reservation res-none", "res-7h3k")),
        (
            {"mounts": [{"path": "/other", "mount_path": "/mnt/lustre", "from": "node-nfs:home"}]},
            "mounts", ("no permission for it on node-nfs:home", "you have: /team"),
        ),
        (
            {"mounts": [{"path": "/", "mount_path": "/mnt/lustre", "from": "node-nfs:tape"}]},
            "mounts", ("no volume node-nfs:tape", "node-nfs:lustre"),
        ),
        ({"secret_vars": {"HF_TOKEN": "hf"}}, "secret_vars", ("no secret of the workspace hf",)),
        ({"image_pull_secrets": ["mine"]}, "pull secrets", ("no secret for registries mine",)),
        ({"container_image": "{}/open/image:2"}, "image", ("no 127.0.0.1", "its name or its tag")),
        ({"container_image": "/lustre/nemo.sqsh"}, "image", ("no image of a registry",)),
        ({"inputs": {"/data/x": "s3://b/x"}}, "S3", ("no ACCESS_KEY and SECRET_KEY",)),
        ({"inputs": {"/data/x": "lepton://b/x"}}, "values", ("lepton://b/x", "s3://b/x")),
        ({"code_transport": "volume"}, "code", ("no run_dir_here",)),
        ({"code_transport": "s3"}, "code", ("no code_url",)),
        ({"secrets": ["MY_TOKEN"]}, "secrets", ("MY_TOKEN", "export MY_TOKEN=")),
    ],
)  # fmt: skip
def test_what_fails(doctor: Doctor, registry: RegistryLab, keys: dict[str, Any], check: str, words: tuple[str, ...]):
    image = {"container_image": keys["container_image"].format(registry.name)} if "container_image" in keys else {}
    told = doctor(**{**keys, **image})
    says(told, check, "failed", *words)
    assert told.code == 2
    assert "Traceback" not in told.err


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"mounts": [{"path": "/", "mount_path": "/mnt/lustre", "from": "node-nfs:nope"}]},
            ("mounts[0]: / at /mnt/lustre: the node group has no volume node-nfs:nope", "one of: node-nfs:lustre"),
        ),
        (
            {"mounts": [{"path": "/secret", "mount_path": "/mnt/lustre", "from": "node-nfs:filestore-1"}]},
            ("mounts[0]: /secret at /mnt/lustre: you have no permission for it", "you have: /team, /public"),
        ),
        (
            {"resource_shape": None, "gpus_per_node": 16},
            ("no shape of that node group has 16 GPUs", "gpu.8xh100-sxm (8 GPUs)"),
        ),
    ],
)  # fmt: skip
def test_a_submission_and_its_preview_are_told_what_the_doctor_tells(
    doctor: Doctor, lepton_lab: LeptonLab, project: Project, keys: dict[str, Any], words: tuple[str, ...]
):
    told = doctor(**keys)
    assert all(word in told.out for word in words), told.out
    project.write("train.py", "")
    for more in ((), ("--dry-run", "--resolve")):
        call("run", "./train.py", "--run", "c", *more).refuses(*words)
    assert {call.method for call in lepton_lab.calls} == {"GET"}


def test_a_node_group_that_is_not_there_is_said_once(doctor: Doctor):
    told = doctor(node_group="b200")
    assert told.out.count("there is no node group") == 1, told.out
    assert "reservation" not in told.out


@pytest.mark.slow
def test_a_submission_that_finds_nobody(doctor: Doctor, project: Project, monkeypatch: pytest.MonkeyPatch):
    """It is said while it is asked again, and where the address comes from at the end."""
    doctor()
    monkeypatch.setenv("LEPTON_WORKSPACE_URL", "http://127.0.0.1:9/x")
    monkeypatch.setattr("nemo_runspec.backends.lepton.client.AT_ONCE", 12.0)
    project.write("train.py", "")
    told = call("run", "./train.py", "--run", "c")
    assert told.code == 2
    assert told.err.count("asking again") == 1
    assert "; nothing was submitted" in told.err
    assert "error: Lepton does not answer as it should: [Errno 111] Connection refused" in told.err
    assert "LEPTON_WORKSPACE_URL" in told.err


def test_what_is_odd(doctor: Doctor, lepton_lab: LeptonLab, registry: RegistryLab):
    group = lepton_lab.world.groups[0]
    group.nodes[:] = [replace(node, taken=8) for node in group.nodes[:3]] + [Node("down", unschedulable=True)]
    told = doctor(gpus_per_node=4, container_image=f"{registry.name}/private/image:1")
    assert told.code == 0, told.out
    says(told, "room", "warning", "0 free now, 3 in all", "the job will wait")
    says(told, "shape", "warning", "has 8 GPUs, gpus_per_node is 4")
    says(told, "image", "warning", "does not tell strangers", "image_pull_secrets")
    told = doctor(nemo_run_dir="/elsewhere", node_group="a100-pool", resource_shape=None, can_preempt=True)
    says(told, "profile", "warning", "the node group's volume will be mounted at /elsewhere")
    says(told, "queue", "warning", "a100-pool has no quota")


@pytest.mark.parametrize(
    ("change", "check", "words"),
    [
        ({"LEPTON_WORKSPACE_TOKEN": "wrong"}, "credentials", ("does not accept", "LEPTON_WORKSPACE_TOKEN", "401")),
        ({"LEPTON_WORKSPACE_TOKEN": "other"}, "credentials", ("not for workspace 'ws-lab'", "403")),
        ({"LEPTON_WORKSPACE_URL": "/none"}, "workspace", ("workspace not found", "LEPTON_WORKSPACE_ID")),
        ({"LEPTON_WORKSPACE_TOKEN": ""}, "credentials", ("no token", "lep workspace login")),
    ],
)
def test_credentials(
    doctor: Doctor, lepton_lab: LeptonLab, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], check: str,
    words: tuple[str, ...],
):  # fmt: skip
    """401 and 403 are told apart, and so is a workspace that is not there; the rest of Lepton is not asked then."""
    for name, value in change.items():
        url = lepton_lab.url.rpartition("/")[0] + value if name.endswith("URL") else value
        monkeypatch.setenv(name, lepton_lab.other_token if value == "other" else url)
    told = doctor()
    says(told, check, "failed", *words)
    assert len(lepton_lab.calls) <= 1
    assert "node group" not in verdicts(told)
    says(told, "image", "ok")  # what Lepton is not needed for is looked at nevertheless


def test_an_image_that_the_recipe_brings(doctor: Doctor):
    told = doctor(container_image=None)
    says(told, "image", "skipped", "a recipe brings its own")
    assert told.code == 0, told.out


def test_a_workspace_that_does_not_answer(doctor: Doctor, lepton_lab: LeptonLab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nemo_runspec.backends.cloud.preflight.checks.PATIENCE", 0.5)
    lepton_lab.fault("*", "500", times=None)
    told = doctor()
    says(told, "workspace", "failed", "does not answer as it should")
    says(told, "credentials", "skipped", "whether they are accepted is not known")


def test_before_a_submission(lepton_lab: LeptonLab):
    """Few questions, and only what is wrong is said."""
    api = api_of(lepton_lab)
    env = {"container_image": "i", **GOOD, "node_reservation": "res-7h3k"}
    assert fast_checks(api, plan_of("lepton", env)) == []
    assert api.web.calls == 5  # groups, shapes, nodes, reservations, what may be mounted of the volume
    assert fast_checks(api, plan_of("lepton", {**env, "node_group": "", "node_reservation": None, "nodes": 1})) == []
    assert api.web.calls == 7  # shapes, and the volumes of all groups
    found = fast_checks(api, plan_of("lepton", {**env, "nodes": 9, "node_reservation": "none"}))
    assert [check.verdict for check in found] == ["failed", "failed"]
    assert "4 in all" in str(found[0].error())
    (data,) = fast_checks(api, plan_of("lepton", env, {"data": {"paths": ["/x", "lepton://bucket/train"]}}))
    assert data.seen == "data.paths[1]: lepton://bucket/train is no address of data"
    assert data.remedy == "write s3://bucket/train"
    (group,) = fast_checks(api, plan_of("lepton", {**env, "node_group": "b200"}))
    assert "no node group 'b200'" in group.seen
    tape = [{"path": "/", "mount_path": "/mnt/lustre", "from": "node-nfs:tape"}]
    (mount,) = fast_checks(api, plan_of("lepton", {**env, "node_group": "", "node_reservation": None, "mounts": tape}))
    assert "no node group has a volume node-nfs:tape" in mount.seen
    assert "node-nfs:lustre" in mount.remedy


def test_before_a_submission_what_may_not_be_asked_does_not_stop_it(lepton_lab: LeptonLab):
    api = api_of(lepton_lab, patience=0.5)
    plan = plan_of("lepton", {"container_image": "i", **GOOD})
    lepton_lab.fault("GET /dedicated-node-groups/*/nodes", "403")
    [found] = fast_checks(api, plan)
    assert (found.name, found.verdict) == ("room", "warning")
    assert found.seen.startswith("not known: Lepton refuses")
    lepton_lab.fault("GET /dedicated-node-groups", "500", times=None)
    with pytest.raises(Unreachable):
        fast_checks(api, plan)
