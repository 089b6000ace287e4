"""The Lepton lab serves and takes what Lepton's own client has types for, and nothing else.

Held against leptonai 0.47, the newest, and 0.27, which NeMo-Run needs. What neither has a type for stands in the table
with its source.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from labs.lepton import rules
from labs.lepton.job import Job
from labs.lepton.lab import LeptonLab
from labs.lepton.scenario import FOR_EVER, KINDS, Scenario
from labs.pods import needs_mounts
from labs.sdks import INSTALLED, Sample, Type, audited, filled, needs_sdks, problems, routes_of
from lepton_jobs import api_of, body_of
from waiting import until

from nemo_runspec.backends.lepton.api import LeptonApi
from nemo_runspec.backends.lepton.rules import problems as problems_of

pytestmark = needs_sdks

NEWEST = "leptonai==0.47.1"
V2 = "leptonai.api.v2.types"
V1 = "leptonai.api.v1.types"
REPLICA = ("status.readiness_issue", "status.cpu", "status.memory_in_mb", "status.node.node_group_id")
"""Of a replica, in NVIDIA's description of TAO on Lepton, which reads the answer without the client."""
OUTSIDE = "no type: read without the client by NVIDIA's TAO SDK 7.0, whose requests and answers these are"

ROUTES = {
    "GET /workspace": Type(f"{V2}.workspace:WorkspaceInfo"),
    "GET /dedicated-node-groups": Type(f"[{V2}.dedicated_node_group:DedicatedNodeGroup]"),
    "GET /dedicated-node-groups/{group}": Type(f"{V2}.dedicated_node_group:DedicatedNodeGroup"),
    "GET /dedicated-node-groups/{group}/nodes": Type(f"[{V2}.dedicated_node_group:Node]"),
    "GET /dedicated-node-groups/{group}/reservations": Type(f"[{V2}.node_reservation:NodeReservation]"),
    "GET /storage-permission/{volume}": Type(f"[{V2}.storage_permission:StoragePermission]"),
    "GET /shapes": Type(f"[{V2}.shape:Shape]"),
    "GET /usersecrets": Type(f"[{V2}.secret:SecretItem]"),
    "POST /usersecrets": Type(takes=f"[{V2}.secret:SecretItem]"),
    "DELETE /usersecrets/{name}": Type(why="no body"),
    "GET /imagepullsecrets": Type(why=OUTSIDE),
    "POST /imagepullsecrets": Type(why=OUTSIDE),
    "POST /jobs": Type(f"{V2}.job:LeptonJob", takes=f"{V2}.job:LeptonJob"),
    "GET /jobs": Type(f"[{V2}.job:LeptonJob]", part="jobs"),
    "GET /jobs/{id}": Type(f"{V2}.job:LeptonJob"),
    "PATCH /jobs/{id}": Type(f"{V2}.job:LeptonJob"),
    "DELETE /jobs/{id}": Type(why="no body"),
    "GET /jobs/{id}/replicas": Type(f"[{V2}.replica:Replica]", beside=REPLICA),
    "GET /jobs/{id}/events": Type(f"[{V2}.events:LeptonEvent]"),
    "GET /jobs/{id}/failure-analysis": Type(why=OUTSIDE),
    "GET /jobs/{id}/replicas/{replica}/log": Type(why="text"),
    "GET /logs": Type(why="Loki's answer"),
}
OLDER = {
    "workspace:WorkspaceInfo", "dedicated_node_group:DedicatedNodeGroup", "dedicated_node_group:Node", "job:LeptonJob",
    "replica:Replica", "events:LeptonEvent",
}  # fmt: skip
"""Types that 0.27 has as well, in version 1 of its interface."""


@pytest.fixture
def audit(lepton_lab: LeptonLab) -> Iterator[list[Sample]]:
    yield audited(lepton_lab, ROUTES)
    lepton_lab.audit = None


def hold(samples: list[Sample]) -> None:
    """A field must be one of the newest or the older type; and both clients must be able to read the whole."""
    assert samples
    older = [
        Sample(each.where, each.type.replace(V2, V1), each.value, each.beside)
        for each in samples
        if each.type.strip("[]").rpartition(".")[2] in OLDER
    ]
    newest, before = set(problems(NEWEST, samples)), set(problems(INSTALLED, older))
    routes = {each.where for each in older}
    once = {line for line in newest if "no such field" in line and line.partition(": ")[0] in routes} - before
    found = (newest - once) | {line for line in before if "no such field" not in line}
    assert not found, "\n".join(sorted(found))


def test_every_route_is_in_the_table(lepton_lab: LeptonLab) -> None:
    assert routes_of(lepton_lab) == set(ROUTES)
    assert all(entry.gives or entry.takes or entry.why for entry in ROUTES.values())


def test_what_a_workspace_has(lepton_lab: LeptonLab, audit: list[Sample]) -> None:
    lepton_lab.world.registries["nvcr"] = {"registry_server": "nvcr.io", "username": "u", "password": "p"}
    api = api_of(lepton_lab)
    api.create_secret("hf", "value")
    look_around(api)
    hold(audit)


@needs_mounts
def test_jobs_in_every_way_they_go(lepton_lab: LeptonLab, audit: list[Sample]) -> None:
    api = api_of(lepton_lab)
    for kind in sorted(set(KINDS) - {"expired_token"}):
        name = kind.replace("_", "-")
        lepton_lab.scenario(name, kind)
        api.create(body_of(name, "for n in 1 2 3 4; do echo step $n; sleep 0.1; done; exit 3"))
        until(lambda: ask(api, lepton_lab.jobs[-1]), f"the end of {kind}, or where it sticks")
    api.create(body_of("pair", "sleep 0.2", nodes=2))
    until(lambda: ask(api, lepton_lab.jobs[-1]), "the end of two nodes")
    list(api.jobs())
    look_around(api)
    hold(audit)


def ask(api: LeptonApi, job: Job) -> bool:
    """Asks all there is to ask of a job; True once nothing more happens to it."""
    state, latest = job.state, job.latest
    api.job(job.id)
    api.replicas(job.id)
    api.events(job.id)
    way = latest.scenario if latest else Scenario()
    sticks = {"Queueing": (way.queueing,), "Starting": (way.pulling, way.starting)}
    return job.ended is not None or job.deleted or FOR_EVER in sticks.get(state, ())


def look_around(api: LeptonApi) -> None:
    """Asks all there is to ask of a workspace."""
    for ask_for in (api.workspace, api.shapes, api.secrets, api.image_pull_secrets):
        ask_for()
    for group in api.node_groups():
        id = group["metadata"]["id"]
        api.nodes(id)
        api.reservations(id)
        for volume in group["spec"]["volumes"]:
            api.storage_permissions(volume["name"], id)


@pytest.mark.parametrize("sdk", [NEWEST, INSTALLED])
def test_what_is_wrong_is_found(sdk: str) -> None:
    kind = f"{V2 if sdk else V1}.job:LeptonJob"
    job = {"metadata": {}, "spec": {"nodes": [], "mounts": [{"path": "/", "mount_path": "/a"}]}}
    found = problems(sdk, [Sample("it", kind, job)])
    assert "it: spec.nodes: no such field of LeptonJobUserSpec" in found
    assert any(line.startswith("it: spec.mounts.0.from: Field required") for line in found)


def test_what_a_job_may_hold() -> None:
    """Every field that the lab takes is one of the type's."""
    body = filled(rules.KINDS["job"].schema)
    del body["spec"]["storage_attachments"]  # taken as it is, whatever it holds
    assert problems(NEWEST, [Sample("a job", f"{V2}.job:LeptonJob", body)]) == []
    secrets = filled(rules.KINDS["secrets"].schema)
    assert problems(NEWEST, [Sample("secrets", f"[{V2}.secret:SecretItem]", secrets)]) == []


PLACES = (
    *sorted(rules.RESERVED_PATHS), "//usr", "///usr/", "/usr/./bin", "/usr/../opt", "/data", "//data", "/usr/share/x",
    "/var/data", "/dev/shm", "/dev/shm/cache", "/opt/data", "/lib32", "/home", "/mnt", "/sys/fs", "/run/secrets",
)  # fmt: skip
NAMES = ("job", "j", "Job", "1job", "job-", "a" * 36, "a" * 37, "x-by-lepton", "a_b", "", "-a", "a--b", "jöb")


def refused(function: str, values: tuple[str, ...]) -> set[str]:
    """Those that Lepton's own client refuses."""
    where = f"leptonai.api.v2.job_validation:{function}"
    found = problems(NEWEST, [Sample(str(n), where, value) for n, value in enumerate(values)])
    return {values[int(line.partition(":")[0])] for line in found}


def test_where_something_may_be_mounted(lepton_lab: LeptonLab) -> None:
    """Its own client, the lab and a profile agree."""
    wrong = refused("validate_mount_path", PLACES)
    assert wrong >= {"//usr", "/usr/bin", "/usr/lib", "/usr/sbin"}
    assert not wrong & {"/dev/shm/cache", "/var/data"}
    mount = {"path": "/", "from": "node-nfs:lustre"}
    groups = list(lepton_lab.world.groups)
    lab = {
        place for place in PLACES if list(rules._mounted([{**mount, "mount_path": place}], groups, lepton_lab.world))
    }
    ours = {place for place in PLACES if list(problems_of({"mounts": [{**mount, "mount_path": place}]}, "job"))}
    assert (lab, ours) == (wrong, wrong)


def test_names_of_jobs() -> None:
    wrong = refused("validate_job_name", NAMES)
    assert {name for name in NAMES if list(rules._named({"id": name}))} == wrong
    assert {name for name in NAMES if name and list(problems_of({}, name))} == wrong - {""}
