"""The run:ai lab serves and takes what NVIDIA's own client has types for, and nothing else.

Held against `runapy`, which is made of NVIDIA's OpenAPI document. Kubernetes' API is another server's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from labs.pods import needs_mounts
from labs.runai import schema
from labs.runai.scenes import KINDS
from labs.runai.server import RunaiLab
from labs.sdks import Sample, Type, audited, needs_sdks, of_names, problems, routes_of
from runai_client import Client
from runai_workloads import api_of, payload
from waiting import until

from nemo_runspec.backends.dgxcloud.api import RunaiApi

pytestmark = needs_sdks

NEWEST, PROJECTS = "runapy==1.224.0", "runapy==1.218.0"
MODELS = "runai.models"
ANY = f"{MODELS}.workload_meta1:WorkloadMeta1"
MADE = {
    "trainings": (f"{MODELS}.training1:Training1", f"{MODELS}.training_creation_request:TrainingCreationRequest"),
    "distributed": (
        f"{MODELS}.distributed_workload:DistributedWorkload",
        f"{MODELS}.distributed_creation_request:DistributedCreationRequest",
    ),
    "workspaces": (f"{MODELS}.workspace1:Workspace1", f"{MODELS}.workspace_creation_request:WorkspaceCreationRequest"),
}
KIND = "{kind:trainings|distributed|workspaces}"
NO_CLIENT = "an acknowledgement without a type of its own"

ROUTES = {
    "POST /token": Type(f"{MODELS}.token_response:TokenResponse"),
    "GET /org-unit/projects": Type(f"{MODELS}.get_projects200_response:GetProjects200Response"),
    "GET /clusters": Type(f"[{MODELS}.displayed_cluster:DisplayedCluster]"),
    "GET /node-pools": Type(f"{MODELS}.get_nodepools200_response:GetNodepools200Response"),
    "GET /nodes": Type(f"{MODELS}.nodes:Nodes", beside=("next",)),
    "GET /asset/datasource/pvc": Type(f"{MODELS}.pvc_list_response:PVCListResponse"),
    "GET /asset/credentials": Type(f"{MODELS}.credentials_list_response:CredentialsListResponse"),
    "GET /asset/credentials/generic-secret": Type(f"{MODELS}.generic_secret_list_response:GenericSecretListResponse"),
    "POST /asset/credentials/generic-secret": Type(
        f"{MODELS}.generic_secret:GenericSecret",
        takes=f"{MODELS}.generic_secret_creation_request:GenericSecretCreationRequest",
    ),
    "DELETE /asset/credentials/generic-secret/{id}": Type(why="no body"),
    f"POST /workloads/{KIND}": Type(ANY, takes=ANY),
    f"GET /workloads/{KIND}/{{id}}": Type(ANY),
    f"DELETE /workloads/{KIND}/{{id}}": Type(why=NO_CLIENT),
    f"POST /workloads/{KIND}/{{id}}/suspend": Type(why=NO_CLIENT),
    f"POST /workloads/{KIND}/{{id}}/resume": Type(why=NO_CLIENT),
    "GET /workloads": Type(f"{MODELS}.get_workloads200_response:GetWorkloads200Response"),
    "GET /workloads/{id}": Type(f"{MODELS}.workload_detailed:WorkloadDetailed"),
    "GET /workloads/{id}/events": Type(f"{MODELS}.get_workload_events200_response:GetWorkloadEvents200Response"),
    "GET /workloads/{id}/history": Type(f"{MODELS}.get_workload_history200_response:GetWorkloadHistory200Response"),
    "GET /workloads/{id}/pods": Type(f"{MODELS}.list_pods200_response:ListPods200Response"),
}


@pytest.fixture
def audit(runai_lab: RunaiLab) -> Iterator[list[Sample]]:
    yield audited(runai_lab, ROUTES)
    runai_lab.audit = None


def hold(samples: list[Sample], kind: str = "trainings") -> None:
    """`kind`: of the workloads that were made."""
    assert samples
    gives, takes = MADE[kind]
    typed = [
        Sample(each.where, (takes if each.where.startswith("body") else gives) if each.type == ANY else each.type,
               each.value, each.beside)
        for each in samples
    ]  # fmt: skip
    of_projects = [each for each in typed if "projects" in each.type]
    found = problems(NEWEST, [each for each in typed if each not in of_projects])
    found += problems(PROJECTS, of_projects)
    assert not found, "\n".join(found)


def test_every_route_is_in_the_table(runai_lab: RunaiLab) -> None:
    assert routes_of(runai_lab) == set(ROUTES)
    assert all(entry.gives or entry.takes or entry.why for entry in ROUTES.values())


def test_what_there_is(runai_lab: RunaiLab, audit: list[Sample]) -> None:
    client = Client(runai_lab)
    client.login()
    meta = {"name": "hf", "scope": "project", "projectId": int(runai_lab.mine.id)}
    made = {"meta": meta, "spec": {"keyValuePairs": [{"key": "TOKEN", "value": "x"}]}}
    assert client.call("POST", "/asset/credentials/generic-secret", made).status_code == 202
    for path in ("/org-unit/projects", "/clusters", "/node-pools", "/nodes", "/workloads"):
        client.get(path)
    for path in ("/asset/datasource/pvc", "/asset/credentials", "/asset/credentials/generic-secret"):
        client.get(path)
    hold(audit)


@needs_mounts
def test_workloads_in_every_way_they_go(runai_lab: RunaiLab, audit: list[Sample]) -> None:
    api = api_of(runai_lab)
    for kind in sorted(set(KINDS) - {"expired", "unknown_phase"}):  # which no type has: that is what it is for
        name = kind.replace("_", "-")
        runai_lab.scenario(name, kind)
        api.create("trainings", payload(runai_lab, name, "for n in 1 2 3 4; do echo step $n; sleep 0.1; done; exit 3"))
        workload = runai_lab.workload(name)
        until(lambda one=workload: ask(api, one.id) and (one.over.is_set() or sticks(one)), f"the end of {kind}")
    list(api.workloads([]))
    hold(audit)


@needs_mounts
def test_two_nodes(runai_lab: RunaiLab, audit: list[Sample]) -> None:
    client = Client(runai_lab)
    client.login()
    pair = client.two_nodes("sleep 0.2")
    assert pair.over.wait(120)
    ask(api_of(runai_lab), pair.id)
    client.get(f"/workloads/distributed/{pair.id}")
    hold(audit, "distributed")


def ask(api: RunaiApi, id: str) -> bool:
    """Asks all there is to ask of a workload."""
    api.detail(id)
    api.workload("trainings", id) if api.detail(id)["type"] == "Training" else None
    for part in (api.events, api.history, api.pods):
        part(id)
    return True


def sticks(workload: object) -> bool:
    """Whether nothing more happens to it."""
    scenario, phase = getattr(workload, "scenario", None), getattr(workload, "phase", "")
    stuck = {"badnode": "Creating", "imagepull": "Initializing", "nocapacity": "Pending"}
    events = getattr(workload, "events", [])
    return scenario is not None and stuck.get(scenario.kind) == phase and any(e["type"] == "Warning" for e in events)


def test_what_a_request_may_hold() -> None:
    """Every field that the lab takes is one of the type's, but for the one that a user's profile has besides."""
    for kind, (_, takes) in MADE.items():
        assert problems(NEWEST, [Sample(kind, takes, body, whole=False) for body in bodies(kind)]) == []
    assert set(schema._UNDOCUMENTED) == {"schedulerName"}


def test_what_is_wrong_is_found() -> None:
    takes = MADE["trainings"][1]
    inner = {"compute": {"gpus": None}, "storage": {"pvc": [{"claim": None}]}}
    found = problems(NEWEST, [Sample("it", takes, {"name": "x", "spec": inner}, whole=False)])
    assert [line.partition(": no such")[0] for line in found] == ["it: spec.compute.gpus", "it: spec.storage.pvc.claim"]
    assert any("projectId" in line for line in problems(NEWEST, [Sample("it", takes, {"name": "x"})]))


def bodies(kind: str) -> Iterator[dict[str, object]]:
    """Requests with all fields that the lab knows, each group of them in its place."""
    outer = of_names(schema._OUTER | (schema._MASTER if kind == "distributed" else {}))
    yield {**outer, "spec": of_names({**schema._COMMON, **schema._KINDS[kind]})}
    if kind == "distributed":
        yield {**outer, "masterSpec": of_names(schema._COMMON)}
    inner: Mapping[str, object] = {
        "environmentVariables": [
            {**names(schema._ENVIRONMENT), **{k: names(v) for k, v in schema._REFERENCES.items()}}
        ],
        "compute": names(schema._COMPUTE),
        "storage": {**names(schema._STORAGE), "pvc": [names(schema._PVC)]},
        "imagePullSecrets": [names(schema._PULL_SECRET)],
        "labels": [names(schema._PAIR)],
        "annotations": [names(schema._PAIR)],
        "nodeAffinityRequired": {"nodeSelectorTerms": [{"matchExpressions": [names(schema._EXPRESSION)]}]},
    }
    yield {**outer, "spec": inner}


def names(check: Callable[[object], object]) -> dict[str, None]:
    """The fields that one of the lab's checks knows: it refuses the others."""
    return of_names(check.__closure__[0].cell_contents) if check.__closure__ else {}
